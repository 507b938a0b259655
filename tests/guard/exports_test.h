/* What exports_test.c and exports_more.c share. */
#ifndef VGPU_TESTS_EXPORTS_TEST_H
#define VGPU_TESTS_EXPORTS_TEST_H

#include "attack.h"

#define BLOCK    (128 * MIB)
#define AUDIT_MS 2500 /* the audit looks meanwhile */

/* A control device of which nothing is asked yet. */
int new_file(const struct rmclient *client);

/* What is used is `bytes`, once the driver knows of what was closed, and that is what is charged,
 * not a page less. */
void check_charged(struct rmclient *client, uint64_t bytes);

void say(int socket);
void hear(int socket);

/* exports_more.c */
void outside(const char *path);
void foreign(const char *path, bool strict);
void cheat(void);
void no_dmabuf(unsigned bytes);
void dmabuf(void);

#endif
