/* What a fuzzer was given, read from the front; at the end it is all zeros.
 * MUST is a property: when it does not hold the input is kept and shown. */
#ifndef SPEC_FUZZ_INPUT_H
#define SPEC_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(what)                                                             \
  do {                                                                         \
    if (!(what)) {                                                             \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);       \
      abort();                                                                 \
    }                                                                          \
  } while (0)

struct input {
  const uint8_t *p, *end;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline uint8_t input_byte(struct input *in) {
  return in->p < in->end ? *in->p++ : 0;
}

static inline uint32_t input_number(struct input *in) {
  uint32_t n = input_byte(in);
  n = n << 8 | input_byte(in);
  n = n << 8 | input_byte(in);
  return n << 8 | input_byte(in);
}

/* Up to n bytes; how many there are goes to *len. */
static inline const char *input_bytes(struct input *in, size_t n, size_t *len) {
  const char *at = (const char *)in->p;
  size_t left = (size_t)(in->end - in->p);
  *len = n < left ? n : left;
  in->p += *len;
  return at;
}

/* All up to a byte that is not copied: a text of its own, to be freed. */
static inline char *input_text(struct input *in, char stop) {
  const uint8_t *from = in->p;
  while (in->p < in->end && *in->p != (uint8_t)stop)
    in->p++;
  size_t n = (size_t)(in->p - from);
  char *text = malloc(n + 1);
  MUST(text != NULL);
  memcpy(text, from, n);
  text[n] = '\0';
  in->p += in->p < in->end;
  return text;
}

#endif
