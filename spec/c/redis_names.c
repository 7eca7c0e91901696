/* For redis/names_spec.lua: reads names in hexadecimal, one a line, and writes
 * the name of their fence counter, likewise, or "reserved". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/wire/names.h"

int main(void) {
  static char line[4096], raw[2048], out[4096];
  while (fgets(line, sizeof line, stdin)) {
    size_t n = strcspn(line, "\n") / 2;
    for (size_t i = 0; i < n; i++) {
      unsigned byte;
      if (sscanf(line + 2 * i, "%2x", &byte) != 1)
        return 1;
      raw[i] = (char)byte;
    }
    struct dlk_redis_name name;
    if (!dlk_redis_name_make(&name, "", raw, n)) {
      puts("reserved");
      continue;
    }
    dlk_redis_name_write(&name, DLK_REDIS_FENCE, out);
    for (size_t i = 0; i < dlk_redis_name_len(&name, DLK_REDIS_FENCE); i++)
      printf("%02x", (unsigned char)out[i]);
    putchar('\n');
  }
  return 0;
}
