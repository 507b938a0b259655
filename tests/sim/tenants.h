/*
 * Tenants of a device: instances, made for a test that runs without one itself, and processes in
 * them. A tenant's group in the simulator's book has the instance's name.
 */
#ifndef TESTS_SIM_TENANTS_H
#define TESTS_SIM_TENANTS_H

#include "book.h"
#include "harness.h"

/* An instance without quotas, below the test's own folder; settings as instance.c has them, one
 * word each. */
void tenant_make(const char *name, const char *settings);
void tenant_set(const char *name, const char *settings); /* changes them, in use */
void tenant_check_empty(const char *name);
uint64_t tenant_number(const char *name, unsigned vdev,
                       const char *key); /* of `instance show`'s compute line */

/* This program again with other words, in the instance; NULL: in that of the test, or none. */
pid_t tenant_start(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tenant_is_one(void);   /* called by such a process: it dies with the test */
void tenant_end(pid_t pid); /* SIGTERM, on which a load ends with 0 */

#endif
