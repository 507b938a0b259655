/* HMAC-MD2 (RFC 1319, RFC 2104), for a check by the CUDA runtime (export.c). Nothing is secret. */
#ifndef SIM_MD2_H
#define SIM_MD2_H

#include <stddef.h>

enum { MD2_BYTES = 16 };

/* One message, in parts. */
struct md2 {
    unsigned char state[48];
    unsigned char checksum[MD2_BYTES];
    unsigned char block[MD2_BYTES];
    unsigned count; /* bytes in the block */
};

void md2_begin(struct md2 *md2);
void md2_add(struct md2 *md2, const void *data, size_t bytes);
void md2_end(struct md2 *md2, unsigned char digest[MD2_BYTES]);

/* Begins a message under a key of one block; the same key ends it. */
void hmac_md2_begin(struct md2 *md2, const unsigned char key[MD2_BYTES]);
void hmac_md2_end(struct md2 *md2, const unsigned char key[MD2_BYTES],
                  unsigned char digest[MD2_BYTES]);

#endif
