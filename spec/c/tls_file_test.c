/* What is left in memory of a private key's file (csrc/tls/file.c). usage:
 * tls_file_test DIR, where spec/support/certificates.lua made its keys. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "tls/file.h"

void __real_free(void *p);
void __wrap_free(void *p);
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);

static int keys_left;
static const char *keys;

static void look_at(void *p) {
  if (p && memmem(p, malloc_usable_size(p), "PRIVATE KEY", 11))
    keys_left++;
}

void __wrap_free(void *p) {
  look_at(p);
  __real_free(p);
}

/* What was there may be freed as it is. */
void *__wrap_realloc(void *p, size_t n) {
  look_at(p);
  return __real_realloc(p, n);
}

TEST(no_key_is_left) {
  char path[512];
  struct dlk_buf pem = {0};
  struct dlk_tls_fault fault = {DLK_OK, ""};
  snprintf(path, sizeof path, "%s/client.key", keys);
  CHECK(dlk_tls_file_read("key", path, &pem, &fault));
  CHECK(memmem(pem.data, pem.len, "PRIVATE KEY", 11));
  dlk_buf_wipe(&pem);
  CHECK(keys_left == 0);
}

int main(int argc, char **argv) {
  keys = argc > 1 ? argv[1] : ".";
  return check_all();
}
