/* A user without a password gets an empty one (nopass). */
#include "store/redis/conn/auth.h"

#include "store/redis/wire/codec.h"

bool dlk_redis_auth_put(struct dlk_redis_auth *a, struct dlk_buf *out) {
  struct dlk_buf now = {0};
  const char *password = a->password;
  if (a->secret)
    password = dlk_secret_read(a->secret, &now, &a->turn) ? now.data : NULL;
  bool somebody = a->username || password;
  if (a->username)
    dlk_redis_put_words(out, "AUTH", a->username, password ? password : "",
                        NULL);
  else if (password)
    dlk_redis_put_words(out, "AUTH", password, NULL);
  out->failed = out->failed || now.failed;
  dlk_buf_wipe(&now);
  return somebody;
}
