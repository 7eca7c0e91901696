/* A name must not leave the directory, be one of the store's own files, or be
 * another key's. Escaping is injective, and SHA-256 keeps long keys apart;
 * key.c also compares the key in the file. */
#include "store/file/format/name.h"

#include <string.h>

#define LONGEST 200

static bool plain(unsigned char c, bool first) {
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    return true;
  if (c >= '0' && c <= '9')
    return true;
  return c == '_' || c == '-' || c == ':' || (c == '.' && !first);
}

void dlk_file_name(char out[DLK_FILE_NAME], const char *key, size_t len) {
  static const char hex[] = "0123456789ABCDEF";
  size_t n = 0;
  for (size_t i = 0; i < len && n <= LONGEST; i++) {
    unsigned char c = (unsigned char)key[i];
    if (plain(c, i == 0)) {
      out[n++] = (char)c;
    } else {
      out[n++] = '%';
      out[n++] = hex[c >> 4];
      out[n++] = hex[c & 15];
    }
  }
  if (n > LONGEST) {
    uint8_t sum[32];
    dlk_file_sha256(sum, key, len);
    n = 0;
    out[n++] = '~';
    out[n++] = 'h';
    for (size_t i = 0; i < sizeof sum; i++) {
      out[n++] = hex[sum[i] >> 4];
      out[n++] = hex[sum[i] & 15];
    }
  }
  out[n] = '\0';
}

bool dlk_file_name_is(const char *name, const char *key, size_t len) {
  char made[DLK_FILE_NAME];
  dlk_file_name(made, key, len);
  return strcmp(made, name) == 0;
}

static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n) {
  return x >> n | x << (32 - n);
}

static void sha_block(uint32_t state[8], const uint8_t data[64]) {
  uint32_t w[64], v[8];
  for (int i = 0; i < 16; i++)
    w[i] = (uint32_t)data[4 * i] << 24 | (uint32_t)data[4 * i + 1] << 16 |
           (uint32_t)data[4 * i + 2] << 8 | data[4 * i + 3];
  for (int i = 16; i < 64; i++) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
           (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  memcpy(v, state, sizeof v);
  for (int i = 0; i < 64; i++) {
    uint32_t e = v[4], a = v[0];
    uint32_t t = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                 ((e & v[5]) ^ (~e & v[6])) + round_constant[i] + w[i];
    uint32_t u = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                 ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
    memmove(v + 1, v, 7 * sizeof v[0]);
    v[4] += t;
    v[0] = t + u;
  }
  for (int i = 0; i < 8; i++)
    state[i] += v[i];
}

void dlk_file_sha256(uint8_t out[32], const void *data, size_t len) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                       0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const uint8_t *p = data;
  uint8_t tail[128] = {0};
  size_t rest = len % 64, size = rest < 56 ? 64 : 128;
  for (size_t i = 0; i + 64 <= len; i += 64)
    sha_block(state, p + i);
  memcpy(tail, p + len - rest, rest);
  tail[rest] = 0x80;
  for (size_t i = 0; i < 8; i++)
    tail[size - 1 - i] = (uint8_t)((uint64_t)len * 8 >> (8 * i));
  for (size_t i = 0; i < size; i += 64)
    sha_block(state, tail + i);
  for (int i = 0; i < 32; i++)
    out[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
