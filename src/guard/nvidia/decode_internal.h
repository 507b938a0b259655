/* What the files of the decoder share. */
#ifndef VGPU_GUARD_DECODE_INTERNAL_H
#define VGPU_GUARD_DECODE_INTERNAL_H

#include "guard/nvidia/decode.h"

/* What an allocation asks for, wherever it is written. */
struct wish {
    uint32_t flags, attr, attr2;
    uint64_t size, alignment;
};

/* The driver is not asked: the call's status is `status`. */
void decode_refuse(struct rm_call *call, uint32_t status);

/* Charges what an allocation asks for, if that is memory of the device. */
void decode_charge(struct rm_call *call, const struct wish *wish);

#endif
