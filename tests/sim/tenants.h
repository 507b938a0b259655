/*
 * Tenants of a device: instances and their processes, for a test that itself has no instance. In
 * the simulator's book a tenant's group has the instance's name.
 */
#ifndef TESTS_SIM_TENANTS_H
#define TESTS_SIM_TENANTS_H

#include "book.h"
#include "harness.h"

/* Makes an instance without quotas in the test's folder. `settings`: KEY=VALUE words, as instance.c
 * reads them. */
void tenant_make(const char *name, const char *settings);
void tenant_set(const char *name, const char *settings); /* of a running instance */
void tenant_check_empty(const char *name);
uint64_t tenant_number(const char *name, unsigned vdev,
                       const char *key); /* of `instance show`'s compute line */

/* Starts this program with the formatted words as arguments. `name`: the instance, or NULL for the
 * test's own. */
pid_t tenant_start(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tenant_is_one(void);   /* for such a process to call: it dies with the test */
void tenant_end(pid_t pid); /* sends SIGTERM, and checks that the process exits with 0 */

#endif
