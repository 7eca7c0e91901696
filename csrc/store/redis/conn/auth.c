/* A user without a password gets an empty one (nopass). */
#include "store/redis/conn/auth.h"

#include "store/redis/wire/codec.h"

static void put(const char *username, const char *password,
                struct dlk_buf *out) {
  dlk_redis_put_array(out, username ? 3 : 2);
  dlk_redis_put_text(out, "AUTH");
  if (username)
    dlk_redis_put_text(out, username);
  dlk_redis_put_text(out, password ? password : "");
}

bool dlk_redis_auth_put(struct dlk_redis_auth *a, struct dlk_buf *out) {
  struct dlk_buf now = {0};
  const char *password = a->password;
  if (a->secret)
    password = dlk_secret_read(a->secret, &now, &a->turn) ? now.data : NULL;
  bool somebody = a->username || password;
  if (somebody)
    put(a->username, password, out);
  out->failed = out->failed || now.failed;
  dlk_buf_wipe(&now);
  return somebody;
}
