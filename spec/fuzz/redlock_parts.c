/* A detached lease of a Redlock, as anybody may pass it to store:attach. Its
 * parts lie in the text, one behind the other and nothing else, and what they
 * are put together to is their text again. */
#include "input.h"
#include "store/redlock/parts.h"

#define NODES 9

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  unsigned nodes = 3 + input_byte(&in) % (NODES - 2);
  size_t len;
  const char *text = input_bytes(&in, size, &len);
  if (!dlk_redlock_part(text, len, nodes, 0).text)
    return 0;
  struct dlk_buf b = {0};
  const char *at = text;
  for (unsigned i = 0; i < nodes; i++) {
    struct dlk_redlock_part part = dlk_redlock_part(text, len, nodes, i);
    MUST(part.text > at && part.text + part.len <= text + len);
    at = part.text + part.len;
    dlk_redlock_parts_add(&b, part.text, part.len);
  }
  MUST(at == text + len);
  for (unsigned i = 0; i < nodes; i++) {
    struct dlk_redlock_part part = dlk_redlock_part(text, len, nodes, i),
                            again = dlk_redlock_part(b.data, b.len, nodes, i);
    MUST(again.text && part.len == again.len &&
         memcmp(part.text, again.text, part.len) == 0);
  }
  dlk_buf_free(&b);
  return 0;
}
