/* Unit tests of what open() was told: a store's own options, and a password
 * that may become another one. */
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/option.h"
#include "core/secret.h"

int64_t __real_dlk_clock_now(void);
int64_t __wrap_dlk_clock_now(void);

static int64_t ahead; /* of the real clock */

int64_t __wrap_dlk_clock_now(void) {
  return __real_dlk_clock_now() + ahead;
}

TEST(options) {
  static const struct dlk_option list[] = {
      {"map", "a:1", "b:2", 0},  {"map", "c:3", "d:4", 0},
      {"text", NULL, "5", 0},    {"half", NULL, NULL, 0.5},
      {"far", NULL, NULL, 1e10}, {"below", NULL, NULL, -2},
  };
  const struct dlk_options all = {list, sizeof list / sizeof *list};
  CHECK(dlk_option_find(&all, "map", "c:3") == &list[1]);
  CHECK(dlk_option_find(&all, "map", NULL) == &list[0]);
  CHECK(!dlk_option_find(&all, "map", "e:5"));
  CHECK(!dlk_option_find(&all, "text", "a:1") &&
        !dlk_option_find(&all, "te", NULL));
  CHECK(strcmp(dlk_option_text(&all, "text"), "5") == 0);
  CHECK(!dlk_option_text(&all, "half") && !dlk_option_text(&all, "none"));
  CHECK(dlk_option_number(&all, "half", 7) == 0.5);
  CHECK(dlk_option_number(&all, "text", 7) == 7);
  CHECK(dlk_option_number(&all, "none", 7) == 7);
  CHECK(dlk_option_ns(&all, "half", 3) == DLK_SEC / 2);
  CHECK(dlk_option_ns(&all, "none", 3) == 3);
  CHECK(dlk_option_ns(&all, "below", 3) == 3);
  CHECK(dlk_option_ns(&all, "far", 3) == DLK_FOREVER);
}

TEST(options_that_nobody_knows) {
  static const struct dlk_option list[] = {{"map", "a:1", "b:2", 0},
                                           {"pass", NULL, "hush", 0}};
  static const char *const both[] = {"pass", "map", NULL};
  struct dlk_options all = {list, 2};
  struct dlk_error err;
  CHECK(dlk_option_check(&all, both, "x://", &err) == DLK_OK);
  CHECK(dlk_option_check(&all, both + 1, "x://", &err) == DLK_INVALID);
  CHECK(strstr(err.text, "'pass'") && !strstr(err.text, "hush"));
  all.count = 0;
  CHECK(dlk_option_check(&all, both + 2, "x://", &err) == DLK_OK);
}

/* Two connections, refused with the same password and with an older one. */
TEST(secrets) {
  struct dlk_secret *s = dlk_secret_new("a", NULL, true);
  struct dlk_buf b = {0};
  unsigned first, second;
  CHECK(s && dlk_secret_read(s, &b, &first) && strcmp(b.data, "a") == 0);
  CHECK(!dlk_secret_is_wanted(s) && !dlk_secret_ask(s));
  CHECK(dlk_secret_refused(s, first) && !dlk_secret_refused(s, first));
  CHECK(dlk_secret_is_wanted(s) && dlk_secret_ask(s) && !dlk_secret_ask(s));
  CHECK(!dlk_secret_is_wanted(s) && !dlk_secret_refused(s, first));
  CHECK(dlk_secret_set(s, "b") && !dlk_secret_refused(s, first));
  dlk_buf_clear(&b);
  CHECK(dlk_secret_read(s, &b, &second) && strcmp(b.data, "b") == 0);
  CHECK(dlk_secret_refused(s, second) && dlk_secret_set(s, NULL));
  CHECK(dlk_secret_refused(s, second)); /* nobody had another one */
  CHECK(dlk_secret_ask(s) && !dlk_secret_refused(s, second));
  ahead = 61 * DLK_SEC; /* who asked has not answered */
  CHECK(dlk_secret_refused(s, second) && dlk_secret_ask(s));
  CHECK(!dlk_secret_refused(s, second));
  dlk_buf_wipe(&b);
  dlk_secret_free(s);
}

int main(void) {
  return check_all();
}
