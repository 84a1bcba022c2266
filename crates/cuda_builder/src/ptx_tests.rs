use super::*;

const HEAD: &str = ".version 8.0\n.target sm_90, debug\n.address_size 64\n";

fn entry(body: &str) -> Function {
    let ptx = Ptx::parse(&format!("{HEAD}.visible .entry k()\n{{\n{body}\n}}\n")).unwrap();
    let [entry] = ptx.entries.try_into().unwrap();
    entry
}

#[test]
fn reads_a_file() {
    let text = format!(
        "// bar.sync .entry no(\n{HEAD}
.extern .shared .align 128 .b8 dyn_smem[];
.visible .global .align 4 .b8 IS90[4] = {{1}};
.extern .func _RNvNt4core9panicking5panic
(
	.param .b64 p
)
.noreturn;
.func (.param .b32 out) helper(.param .b32 p)
;
.func (.param .b32 out) helper(.param .b32 p)
{{
	ret;
}}
.visible .entry k1(
	.param .align 8 .b8 k1_param_0[24]
)
.maxntid 512, 1, 1
.minnctapersm 2
{{
	.local .align 16 .b8 	__local_depot0[448];
	.reg .b64 	%SP;
	ret;
}}
.visible .entry k2(.param .b64 p)
{{
	trap; // one
	ret;
}}
"
    );
    let ptx = Ptx::parse(&text).unwrap();
    assert_eq!((ptx.version, ptx.target.as_str()), ((8, 0), "sm_90"));
    assert_eq!(ptx.extern_functions, ["_RNvNt4core9panicking5panic"]);
    assert_eq!(ptx.functions.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["helper"]);
    let [k1, k2] = ptx.entries.as_slice() else { panic!("{:?}", ptx.entries) };
    assert_eq!((k1.name.as_str(), k1.max_threads, k1.min_blocks), ("k1", Some(512), Some(2)));
    assert_eq!((k1.local_bytes, k1.mnemonics.as_slice()), (448, ["ret".to_string()].as_slice()));
    assert_eq!((k2.name.as_str(), k2.max_threads, k2.min_blocks), ("k2", None, None));
    assert_eq!((k2.local_bytes, k2.mnemonics.len()), (0, 2));
}

#[test]
fn counts_instructions_behind_predicates_labels_and_scopes() {
    let k = entry(
        "	@%p1 bra 	$L__BB1_2;
$L__BB1_2:
	bar.sync 	0;
	@!%p1 bar.sync 0;
	barrier.cta.sync.aligned.all 	0;
	bar.warp.sync 	-1;
	{ .reg .b32 tmp; mov.b64 {tmp, %r6}, %rd2; }
	mov.b64 	{_, %r6}, %rd2;
	{ .reg .pred p; WAIT: mbarrier.try_wait.shared.b64 p, [%r1], 1; @p bra DONE; bra WAIT; DONE: }
	cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 16, [%r2];
	{ // callseq 0, 0
	.param .b64 param0;
	call.uni
	helper,
	(
	param0
	);
	} // callseq 0
	ret;",
    );
    assert_eq!(k.count("bar.sync"), 2);
    assert_eq!(k.count("barrier.cta.sync"), 1);
    assert_eq!(k.count("mov.b64"), 2);
    assert_eq!(k.count("mbarrier"), 1);
    assert_eq!(k.count("bra"), 3);
    assert_eq!(k.count("cp.async.bulk"), 1);
    assert_eq!(k.count("call"), 1);
    assert_eq!(k.mnemonics.len(), 13, "{:?}", k.mnemonics);
}

#[test]
fn a_prefix_ends_at_a_dot() {
    let k = entry("add.s32 %r1, %r1, 1; addc.u32 %r1, %r1, 1; add.cc.u32 %r1, %r1, 1;");
    assert_eq!(k.count("add"), 2);
    assert_eq!(k.count("add.s3"), 0);
}

#[test]
fn tells_contractible_and_approximate_instructions() {
    let right = entry(
        "add.rn.f32 a, b, c; mul.rn.f64 a, b, c; fma.rn.f32 a, b, c, d; add.s32 a, b, c;
	mul.wide.u32 a, b, c; div.rn.f32 a, b, c; sqrt.rn.f32 a, b; red.global.add.f32 [a], b;
	sub.rz.f32 a, b, c; cvt.rn.f32.u32 a, b;",
    );
    assert_eq!((right.contractible(), right.approximate()), (0, 0));
    let wrong = entry("add.f32 a, b, c; sub.f64 a, b, c; mul.f16x2 a, b, c; mul.ftz.f32 a, b, c;");
    assert_eq!((wrong.contractible(), wrong.approximate()), (4, 1));
    let wrong = entry("div.approx.f32 a, b, c; div.full.f32 a, b, c; rcp.rn.ftz.f32 a, b;");
    assert_eq!((wrong.contractible(), wrong.approximate()), (0, 3));
}

#[test]
fn measures_loads() {
    let k = entry(
        "ld.global.nc.v4.b32 {a, b, c, d}, [p]; ld.global.L1::no_allocate.v2.u64 {a, b}, [p];
	ld.v4.f32 {a, b, c, d}, [p]; ld.global.v2.b32 {a, b}, [p]; ld.b32 a, [p];
	ld.param.v4.b32 {a, b, c, d}, [p]; ld.relaxed.gpu.global.v4.f32 {a, b, c, d}, [p];
	ld.shared.v4.b32 {a, b, c, d}, [p]; ld.shared::cta.v2.f64 {a, b}, [p]; ld.shared.b32 a, [p];
	st.global.v4.b32 [p], {a, b, c, d};",
    );
    assert_eq!(k.wide_loads(Space::Global), 4);
    assert_eq!(k.wide_loads(Space::Shared), 2);
}

#[test]
fn what_is_not_ptx_is_an_error() {
    assert_eq!(Ptx::parse(""), Err(PtxError::Directive(".version")));
    assert_eq!(Ptx::parse(".version 8\n.target sm_90\n"), Err(PtxError::Directive(".version")));
    assert_eq!(Ptx::parse(".version 8.0\n"), Err(PtxError::Directive(".target")));
    let cut = format!("{HEAD}.visible .entry k()\n{{\n\tret;\n");
    assert_eq!(Ptx::parse(&cut), Err(PtxError::Unended("k".into())));
    let cut = format!("{HEAD}.visible .entry k(");
    assert_eq!(Ptx::parse(&cut), Err(PtxError::Unended("k".into())));
}

#[test]
fn comments_go_and_strings_stay() {
    let text = "a // b\n/* c\n */d / e .pragma \"no//unroll\";\n//";
    assert_eq!(blank_comments(text), "a \nd / e .pragma \"no//unroll\";\n");
}
