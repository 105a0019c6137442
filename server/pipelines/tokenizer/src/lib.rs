//! The C interface of stoker_tokenizer.h. Nothing unwinds out of it: what panics is an error with a text.

use std::any::Any;
use std::os::raw::{c_char, c_int};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use tokenizers::{Encoding, PaddingDirection, Tokenizer, TruncationParams};

/// Changes with every change of the interface.
const ABI: u32 = 1;

const OK: c_int = 0;
const REFUSED: c_int = 1;
const FAILED: c_int = 2;

pub struct StokerTokenizer {
    tokenizer: Tokenizer,
    pad_id: u32,
    pad_type_id: u32,
    pads_left: bool,
}

#[repr(C)]
pub struct StokerTokens {
    length: usize,
    input_ids: *const u32,
    attention_mask: *const u32,
    token_type_ids: *const u32,
    owner: *mut Encoding,
}

enum Fault {
    Refused(String),
    Failed(String),
}

/// What a panic says goes to the caller, and not to stderr as well.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "it panicked: {}",
        text.as_deref().unwrap_or("without a text")
    )
}

/// Writes at most `size` bytes, the 0 at the end included.
unsafe fn write_text(text: &str, out: *mut c_char, size: usize) {
    if out.is_null() || size == 0 {
        return;
    }
    let mut end = text.len().min(size - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    std::ptr::copy_nonoverlapping(text.as_ptr() as *const c_char, out, end);
    *out.add(end) = 0;
}

/// Runs `body`, and says how it ended.
unsafe fn guarded<F>(body: F, error: *mut c_char, error_size: usize) -> c_int
where
    F: FnOnce() -> Result<(), Fault>,
{
    silence_panics();
    let (code, text) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return OK,
        Ok(Err(Fault::Refused(text))) => (REFUSED, text),
        Ok(Err(Fault::Failed(text))) => (FAILED, text),
        Err(panic) => (FAILED, panic_text(panic.as_ref())),
    };
    write_text(&text, error, error_size);
    code
}

fn open(json: &[u8], max_length: usize) -> Result<StokerTokenizer, Fault> {
    let mut tokenizer =
        Tokenizer::from_bytes(json).map_err(|error| Fault::Refused(error.to_string()))?;
    if max_length > 0 {
        let truncation = TruncationParams {
            max_length,
            ..tokenizer.get_truncation().cloned().unwrap_or_default()
        };
        tokenizer
            .with_truncation(Some(truncation))
            .map_err(|error| Fault::Refused(error.to_string()))?;
    }
    let padding = tokenizer.get_padding().cloned();
    tokenizer.with_padding(None);
    let known = |token: &str| tokenizer.token_to_id(token);
    Ok(match padding {
        Some(padding) => StokerTokenizer {
            pad_id: padding.pad_id,
            pad_type_id: padding.pad_type_id,
            pads_left: matches!(padding.direction, PaddingDirection::Left),
            tokenizer,
        },
        None => StokerTokenizer {
            pad_id: known("[PAD]").or_else(|| known("<pad>")).unwrap_or(0),
            pad_type_id: 0,
            pads_left: false,
            tokenizer,
        },
    })
}

#[no_mangle]
pub extern "C" fn stoker_tokenizer_abi() -> u32 {
    ABI
}

/// # Safety
/// As stoker_tokenizer.h says.
#[no_mangle]
pub unsafe extern "C" fn stoker_tokenizer_open(
    json: *const u8,
    size: usize,
    max_length: usize,
    out: *mut *mut StokerTokenizer,
    error: *mut c_char,
    error_size: usize,
) -> c_int {
    guarded(
        || {
            let opened = open(std::slice::from_raw_parts(json, size), max_length)?;
            *out = Box::into_raw(Box::new(opened));
            Ok(())
        },
        error,
        error_size,
    )
}

/// # Safety
/// As stoker_tokenizer.h says.
#[no_mangle]
pub unsafe extern "C" fn stoker_tokenizer_close(tokenizer: *mut StokerTokenizer) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw(tokenizer))));
}

/// # Safety
/// As stoker_tokenizer.h says.
#[no_mangle]
pub unsafe extern "C" fn stoker_tokenizer_padding(
    tokenizer: *const StokerTokenizer,
    pad_id: *mut u32,
    pad_type_id: *mut u32,
    pads_left: *mut c_int,
) {
    *pad_id = (*tokenizer).pad_id;
    *pad_type_id = (*tokenizer).pad_type_id;
    *pads_left = c_int::from((*tokenizer).pads_left);
}

/// # Safety
/// As stoker_tokenizer.h says.
#[no_mangle]
pub unsafe extern "C" fn stoker_tokenizer_encode(
    tokenizer: *const StokerTokenizer,
    text: *const u8,
    size: usize,
    out: *mut StokerTokens,
    error: *mut c_char,
    error_size: usize,
) -> c_int {
    guarded(
        || {
            let text = std::str::from_utf8(std::slice::from_raw_parts(text, size))
                .map_err(|error| Fault::Refused(error.to_string()))?;
            let encoding = (*tokenizer)
                .tokenizer
                .encode_fast(text, true)
                .map_err(|error| Fault::Failed(error.to_string()))?;
            let encoding = Box::new(encoding);
            *out = StokerTokens {
                length: encoding.len(),
                input_ids: encoding.get_ids().as_ptr(),
                attention_mask: encoding.get_attention_mask().as_ptr(),
                token_type_ids: encoding.get_type_ids().as_ptr(),
                owner: Box::into_raw(encoding),
            };
            Ok(())
        },
        error,
        error_size,
    )
}

/// # Safety
/// As stoker_tokenizer.h says.
#[no_mangle]
pub unsafe extern "C" fn stoker_tokenizer_free(tokens: *mut StokerTokens) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(Box::from_raw((*tokens).owner))));
}
