//! Evaluates a model from Rust: reads the rows of its one input from a file of raw numbers and prints its first output.
//!
//!     rustc predict.rs -L bundles/model_digits-1.0.0/lib/linux-x86_64 -l static=model_digits -l m
//!     ./predict rows.bin
//!
//! Every function and type is documented in `include/model_digits.h` and `include/modelwheel/abi.h`.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

#[repr(C)]
struct Model {
    _private: [u8; 0],
}

/// `modelwheel_tensor`
#[repr(C)]
struct Tensor {
    name: *const c_char,
    c_name: *const c_char,
    dtype: c_int,
    item_bytes: usize,
    rank: usize,
    shape: *const i64,
    leading_per_row: usize,
    row_elements: usize,
    row_bytes: usize,
}

const OK: c_int = 0;
const FLOAT32: c_int = 11;

extern "C" {
    fn model_digits_input(index: usize) -> *const Tensor;
    fn model_digits_output(index: usize) -> *const Tensor;
    fn model_digits_num_inputs() -> usize;
    fn model_digits_create(level: *const c_char, model: *mut *mut Model, error: *mut c_char, size: usize) -> c_int;
    fn model_digits_destroy(model: *mut Model);
    fn model_digits_level(model: *const Model) -> *const c_char;
    fn model_digits_error(model: *const Model) -> *const c_char;
    fn model_digits_run(model: *mut Model, rows: usize, inputs: *const *const c_void, outputs: *const *mut c_void)
        -> c_int;
}

fn text(sentence: *const c_char) -> String {
    unsafe { CStr::from_ptr(sentence) }.to_string_lossy().into_owned()
}

/// An instance, which one thread at a time may use.
struct Instance(*mut Model);

impl Instance {
    fn new() -> Result<Instance, String> {
        let mut problem = [0 as c_char; 256];
        let mut model = null_mut();
        let status = unsafe { model_digits_create(null(), &mut model, problem.as_mut_ptr(), problem.len()) };
        if status == OK { Ok(Instance(model)) } else { Err(text(problem.as_ptr())) }
    }

    /// The first output for dense rows of the one input.
    fn run(&mut self, input: &[f32]) -> Result<Vec<f32>, String> {
        let (taken, made) = unsafe { (&*model_digits_input(0), &*model_digits_output(0)) };
        if unsafe { model_digits_num_inputs() } != 1 || taken.dtype != FLOAT32 || made.dtype != FLOAT32 {
            return Err("this example is for one input and one output of float32".into());
        }
        let rows = input.len() / taken.row_elements;
        let mut output = vec![0f32; rows * made.row_elements];
        let inputs = [input.as_ptr() as *const c_void];
        let outputs = [output.as_mut_ptr() as *mut c_void];
        let status = unsafe { model_digits_run(self.0, rows, inputs.as_ptr(), outputs.as_ptr()) };
        if status == OK { Ok(output) } else { Err(text(unsafe { model_digits_error(self.0) })) }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        unsafe { model_digits_destroy(self.0) }
    }
}

fn main() -> Result<(), String> {
    let path = std::env::args().nth(1).ok_or("usage: predict ROWS")?;
    let bytes = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
    let input: Vec<f32> = bytes.chunks_exact(4).map(|b| f32::from_ne_bytes([b[0], b[1], b[2], b[3]])).collect();
    let mut model = Instance::new()?;
    eprintln!("{}", text(unsafe { model_digits_level(model.0) }));
    for value in model.run(&input)? {
        println!("{value}");
    }
    Ok(())
}
