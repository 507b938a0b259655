/*
 * What the tests of the guard's decoder share.
 */
#ifndef VGPU_TESTS_GUARD_CALLS_H
#define VGPU_TESTS_GUARD_CALLS_H

#include "unit.h"

#include "guard/nvidia/decode.h"

static inline const struct rm_branch *branch(unsigned major)
{
    const struct rm_branch *found = NULL;

    assert_int_equal(branch_find(&(struct rm_version){.major = major, .minor = 100}, &found), 0);
    return found;
}

#define CALL(nr, arg, ret_call)                                                                    \
    decode_call(branch(580), false, RM_KEY(nr, sizeof(arg)), &(arg), ret_call)

#endif
