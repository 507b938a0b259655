/* MD2 (RFC 1319) and HMAC (RFC 2104) over it. */
#include "md2.h"

#include <string.h>

enum { ROUNDS = 18, INNER = 0x36, OUTER = 0x5c };

/* RFC 1319, 3.2: a permutation of the bytes, made from the digits of pi. */
static const unsigned char substitute[256] = {
    41,  46,  67,  201, 162, 216, 124, 1,   61,  54,  84,  161, 236, 240, 6,   19,  98,  167, 5,
    243, 192, 199, 115, 140, 152, 147, 43,  217, 188, 76,  130, 202, 30,  155, 87,  60,  253, 212,
    224, 22,  103, 66,  111, 24,  138, 23,  229, 18,  190, 78,  196, 214, 218, 158, 222, 73,  160,
    251, 245, 142, 187, 47,  238, 122, 169, 104, 121, 145, 21,  178, 7,   63,  148, 194, 16,  137,
    11,  34,  95,  33,  128, 127, 93,  154, 90,  144, 50,  39,  53,  62,  204, 231, 191, 247, 151,
    3,   255, 25,  48,  179, 72,  165, 181, 209, 215, 94,  146, 42,  172, 86,  170, 198, 79,  184,
    56,  210, 150, 164, 125, 182, 118, 252, 107, 226, 156, 116, 4,   241, 69,  157, 112, 89,  100,
    113, 135, 32,  134, 91,  207, 101, 230, 45,  168, 2,   27,  96,  37,  173, 174, 176, 185, 246,
    28,  70,  97,  105, 52,  64,  126, 15,  85,  71,  163, 35,  221, 81,  175, 58,  195, 92,  249,
    206, 186, 197, 234, 38,  44,  83,  13,  110, 133, 40,  132, 9,   211, 223, 205, 244, 65,  129,
    77,  82,  106, 220, 55,  200, 108, 193, 171, 250, 36,  225, 123, 8,   12,  189, 177, 74,  120,
    136, 149, 139, 227, 99,  232, 109, 233, 203, 213, 254, 59,  0,   29,  57,  242, 239, 183, 14,
    102, 88,  208, 228, 166, 119, 114, 248, 235, 117, 75,  10,  49,  68,  80,  180, 143, 237, 31,
    26,  219, 153, 141, 51,  159, 17,  131, 20,
};

static void take_block(struct md2 *md2)
{
    unsigned char last = md2->checksum[MD2_BYTES - 1];
    unsigned mixed = 0;

    for (int at = 0; at < MD2_BYTES; at++) {
        md2->state[MD2_BYTES + at] = md2->block[at];
        md2->state[2 * MD2_BYTES + at] = md2->block[at] ^ md2->state[at];
        last = md2->checksum[at] ^= substitute[md2->block[at] ^ last];
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (size_t at = 0; at < sizeof(md2->state); at++)
            mixed = md2->state[at] ^= substitute[mixed];
        mixed = (mixed + round) % 256;
    }
    md2->count = 0;
}

void md2_begin(struct md2 *md2)
{
    memset(md2, 0, sizeof(*md2));
}

void md2_add(struct md2 *md2, const void *data, size_t bytes)
{
    const unsigned char *from = data;

    while (bytes--) {
        md2->block[md2->count++] = *from++;
        if (md2->count == MD2_BYTES)
            take_block(md2);
    }
}

void md2_end(struct md2 *md2, unsigned char digest[MD2_BYTES])
{
    unsigned char padding[MD2_BYTES], checksum[MD2_BYTES];
    unsigned missing = MD2_BYTES - md2->count;

    memset(padding, (int)missing, sizeof(padding));
    md2_add(md2, padding, missing);
    memcpy(checksum, md2->checksum, sizeof(checksum));
    md2_add(md2, checksum, sizeof(checksum));
    memcpy(digest, md2->state, MD2_BYTES);
}

static void add_key(struct md2 *md2, const unsigned char key[MD2_BYTES], unsigned char mask)
{
    unsigned char masked[MD2_BYTES];

    for (int at = 0; at < MD2_BYTES; at++)
        masked[at] = key[at] ^ mask;
    md2_add(md2, masked, sizeof(masked));
}

void hmac_md2_begin(struct md2 *md2, const unsigned char key[MD2_BYTES])
{
    md2_begin(md2);
    add_key(md2, key, INNER);
}

void hmac_md2_end(struct md2 *md2, const unsigned char key[MD2_BYTES],
                  unsigned char digest[MD2_BYTES])
{
    unsigned char inner[MD2_BYTES];

    md2_end(md2, inner);
    md2_begin(md2);
    add_key(md2, key, OUTER);
    md2_add(md2, inner, sizeof(inner));
    md2_end(md2, digest);
}
