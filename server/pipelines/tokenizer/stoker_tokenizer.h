/* The C interface of libstoker_tokenizer.so, which makes tokens of strings as a
   tokenizer.json says. Nothing of Rust's crosses it: what panics there is an
   error here.

   Thread-safe: any number of threads may encode with one tokenizer. */
#ifndef STOKER_TOKENIZER_H_
#define STOKER_TOKENIZER_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of what is here. */
#define STOKER_TOKENIZER_ABI 1

/* What a call ends with; unless it is OK, `error` holds a text of at most
   `error_size` bytes, with a 0 behind it. */
enum {
  STOKER_TOKENIZER_OK = 0,
  STOKER_TOKENIZER_REFUSED = 1, /* what it was given */
  STOKER_TOKENIZER_FAILED = 2
};

struct StokerTokenizer;

struct StokerTokens {
  size_t length;
  /* So many of each, until the tokens are freed. */
  const uint32_t* input_ids;
  const uint32_t* attention_mask;
  const uint32_t* token_type_ids;
  void* owner;
};

uint32_t stoker_tokenizer_abi(void);

/* `json`: what a tokenizer.json holds. `max_length`: tokens that are taken of a
   text, special ones included; 0: as the file says. */
int stoker_tokenizer_open(const uint8_t* json, size_t size, size_t max_length,
                          struct StokerTokenizer** out, char* error,
                          size_t error_size);
void stoker_tokenizer_close(struct StokerTokenizer* tokenizer);

/* What fills up a text's tokens to those of a longer one, and where. */
void stoker_tokenizer_padding(const struct StokerTokenizer* tokenizer,
                              uint32_t* pad_id, uint32_t* pad_type_id,
                              int* pads_left);

/* Tokens of one text, which is UTF-8. */
int stoker_tokenizer_encode(const struct StokerTokenizer* tokenizer,
                            const uint8_t* text, size_t size,
                            struct StokerTokens* out, char* error,
                            size_t error_size);
void stoker_tokenizer_free(struct StokerTokens* tokens);

#ifdef __cplusplus
}
#endif

#endif /* STOKER_TOKENIZER_H_ */
