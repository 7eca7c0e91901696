/* Answers of a Consul server, and names of its keys: the first byte says which
 * function reads the rest.
 *
 * - Nothing is read beyond the answer, and every reader ends.
 * - A contender's name is that of its key again. */
#include "input.h"
#include "store/session/consul/wire/txn.h"
#include "store/session/format/names.h"

static volatile size_t seen;

static void look_at_answer(const struct dlk_buf *body) {
  struct dlk_consul_answer a;
  if (!dlk_consul_read(body, &a))
    return;
  seen += (size_t)a.failed + strlen(a.why);
  for (size_t i = 0; i < a.count; i++) {
    struct dlk_buf name = {0}, value = {0};
    seen += strlen(a.at[i].session);
    dlk_consul_value(&a.at[i], &value);
    dlk_consul_name(&name, a.at[i].key, a.at[i].created);
    MUST(!name.failed && name.len > 0 && name.data[name.len - 1] == '\0');
    MUST(!value.failed && value.len <= strlen(a.at[i].value));
    dlk_buf_free(&name);
    dlk_buf_free(&value);
  }
  dlk_consul_free(&a);
}

static void look_at_name(const char *text) {
  struct dlk_buf path = {0}, key = {0}, again = {0};
  struct dlk_ss_entry e;
  dlk_buf_addf(&path, "/l/%s", text);
  dlk_buf_add(&path, "", 1);
  dlk_consul_key(&key, path.data);
  dlk_buf_add(&key, "", 1);
  MUST(!path.failed && !key.failed);
  if (dlk_ss_name_parse(text, &e) && strlen(strrchr(text, '-') + 1) == 15) {
    dlk_consul_name(&again, key.data + 2, e.seq);
    MUST(strcmp(again.data, text) == 0);
  }
  dlk_buf_free(&path);
  dlk_buf_free(&key);
  dlk_buf_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  if (input_byte(&in) % 2 == 0) {
    const struct dlk_buf body = {.data = (char *)(uintptr_t)in.p,
                                 .len = (size_t)(in.end - in.p)};
    look_at_answer(&body);
  } else {
    char *text = input_text(&in, '\0');
    look_at_name(text);
    free(text);
  }
  return 0;
}
