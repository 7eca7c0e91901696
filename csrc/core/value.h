/* A tree of values: a store's answer on its way to Lua. Builders return NULL
 * when out of memory and accept NULL, so that one check at the end will do. */
#ifndef DLK_CORE_VALUE_H
#define DLK_CORE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dlk_value_kind {
  DLK_VALUE_NIL,
  DLK_VALUE_BOOL,
  DLK_VALUE_INT,
  DLK_VALUE_NUMBER,
  DLK_VALUE_STRING,
  DLK_VALUE_LIST,
  DLK_VALUE_MAP,  /* children with names */
  DLK_VALUE_TUPLE /* several results */
};

struct dlk_value {
  enum dlk_value_kind kind;
  union {
    bool boolean;
    int64_t integer;
    double number;
    struct {
      char *data;
      size_t len;
    } string;
    struct {
      struct dlk_value *first, *last;
    } children;
  } u;
  const char *name; /* in a map; a string constant */
  struct dlk_value *next;
};

struct dlk_value *dlk_value_nil(void);
struct dlk_value *dlk_value_bool(bool b);
struct dlk_value *dlk_value_int(int64_t n);
struct dlk_value *dlk_value_number(double n);
struct dlk_value *dlk_value_string(const char *s, size_t len);
struct dlk_value *dlk_value_list(void);
struct dlk_value *dlk_value_map(void);
struct dlk_value *dlk_value_tuple(void);

/* Appends child, which parent owns then. A NULL on either side frees all and
 * returns NULL; else it returns parent. */
struct dlk_value *dlk_value_add(struct dlk_value *parent,
                                struct dlk_value *child);
/* The same with a name. */
struct dlk_value *dlk_value_set(struct dlk_value *parent, const char *name,
                                struct dlk_value *child);
void dlk_value_free(struct dlk_value *v);

#endif
