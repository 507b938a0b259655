/* What the files of the decoder share. */
#ifndef VGPU_GUARD_DECODE_INTERNAL_H
#define VGPU_GUARD_DECODE_INTERNAL_H

#include "guard/nvidia/decode.h"

/* What an allocation asks for, in whichever structure. */
struct alloc_request {
    uint32_t flags, attr, attr2;
    uint64_t size, alignment;
};

/* Turns the call into one that is refused with `status`. */
void decode_refuse(struct rm_call *call, uint32_t status);

/* Charges an allocation of device memory. */
void decode_charge(struct rm_call *call, const struct alloc_request *request);

#endif
