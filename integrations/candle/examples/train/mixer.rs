//! An MLP-mixer: each block mixes the places of a sequence, then the channels of a place.

use candle_core::{Module, Result, Tensor};
use candle_nn::{Embedding, Linear, VarBuilder, embedding, linear_no_bias};

/// Different digits.
pub const DIGITS: usize = 10;
/// Digits in a sequence.
pub const LENGTH: usize = 8;
const CHANNELS: usize = 64;
const BLOCKS: usize = 3;

/// Makes a LayerNorm over so many channels.
pub type Norm = fn(usize, VarBuilder) -> Result<Box<dyn Module>>;

struct Mlp {
    up: Linear,
    down: Linear,
}

impl Mlp {
    fn new(size: usize, hidden: usize, builder: VarBuilder) -> Result<Mlp> {
        let up = linear_no_bias(size, hidden, builder.pp("up"))?;
        let down = linear_no_bias(hidden, size, builder.pp("down"))?;
        Ok(Mlp { up, down })
    }
}

impl Module for Mlp {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.down.forward(&self.up.forward(x)?.gelu()?)
    }
}

struct Block {
    norms: [Box<dyn Module>; 2],
    places: Mlp,
    channels: Mlp,
}

impl Block {
    fn new(norm: Norm, builder: VarBuilder) -> Result<Block> {
        let norms = [norm(CHANNELS, builder.pp("norm1"))?, norm(CHANNELS, builder.pp("norm2"))?];
        let places = Mlp::new(LENGTH, 4 * LENGTH, builder.pp("places"))?;
        let channels = Mlp::new(CHANNELS, 2 * CHANNELS, builder.pp("channels"))?;
        Ok(Block { norms, places, channels })
    }
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let places = self.norms[0].forward(x)?.transpose(1, 2)?.contiguous()?;
        let x = (x + self.places.forward(&places)?.transpose(1, 2)?)?;
        let channels = self.norms[1].forward(&x)?;
        x + self.channels.forward(&channels)?
    }
}

/// From digits (batch, places) to a score for each digit at each place.
pub struct Mixer {
    embedding: Embedding,
    blocks: Vec<Block>,
    norm: Box<dyn Module>,
    head: Linear,
}

impl Mixer {
    pub fn new(norm: Norm, builder: VarBuilder) -> Result<Mixer> {
        let block = |i| Block::new(norm, builder.pp(format!("block{i}")));
        Ok(Mixer {
            embedding: embedding(DIGITS, CHANNELS, builder.pp("embedding"))?,
            blocks: (0..BLOCKS).map(block).collect::<Result<_>>()?,
            norm: norm(CHANNELS, builder.pp("norm"))?,
            head: linear_no_bias(CHANNELS, DIGITS, builder.pp("head"))?,
        })
    }
}

impl Module for Mixer {
    fn forward(&self, digits: &Tensor) -> Result<Tensor> {
        let x = self.embedding.forward(digits)?;
        let x = self.blocks.iter().try_fold(x, |x, block| block.forward(&x))?;
        self.head.forward(&self.norm.forward(&x)?)
    }
}
