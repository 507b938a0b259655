/*
 * What the tests of the guard's decoder share.
 */
#ifndef VGPU_TESTS_GUARD_CALLS_H
#define VGPU_TESTS_GUARD_CALLS_H

#include "unit.h"

#include "guard/nvidia/decode.h"

static const struct rm_branch branch_rows[] = {
#define BRANCH(...) {__VA_ARGS__},
#include "branches.def"
#undef BRANCH
};

static inline const struct rm_branch *branch(unsigned major)
{
    const struct rm_branch *row = branch_rows;

    while (row->major != major)
        row++;
    return row;
}

#define CALL(nr, arg, ret_call)                                                                    \
    decode_call(branch(580), false, RM_KEY(nr, sizeof(arg)), &(arg), ret_call)

#endif
