/* Counting trampolines for aarch64; see pass.h. x9 to x17 carry nothing at the entry of a function. */

#include "hook/loader/pass.h"

        .section .note.GNU-stack, "", %progbits
        .text

        .macro  TRAMPOLINE name
        .globl  \name
        .type   \name, %function
        .org    pass_base + PASS_BYTES * row
\name:
        hint    #34                     /* bti c */
        mov     w16, #row
        b       pass_count
        .size   \name, . - \name
        .endm

        .type   pass_count, %function
        .p2align 4
pass_count:
        .cfi_startproc
        adrp    x9, trace_rows
        ldr     x9, [x9, :lo12:trace_rows]
        add     x9, x9, x16, lsl #4
9:      ldxr    x13, [x9]
        add     x13, x13, #1
        stxr    w14, x13, [x9]
        cbnz    w14, 9b
        adrp    x17, hook_real
        add     x17, x17, :lo12:hook_real
        ldr     x17, [x17, x16, lsl #3]
        cbz     x17, pass_unknown
        mov     x16, x17
        br      x16
        .cfi_endproc
        .size   pass_count, . - pass_count

/* Asks pass_resolve() where to jump, with every argument register kept. */
        .type   pass_unknown, %function
pass_unknown:
        .cfi_startproc
        stp     x29, x30, [sp, #-224]!
        .cfi_def_cfa_offset 224
        .cfi_offset x29, -224
        .cfi_offset x30, -216
        mov     x29, sp
        stp     x0, x1, [sp, #16]
        stp     x2, x3, [sp, #32]
        stp     x4, x5, [sp, #48]
        stp     x6, x7, [sp, #64]
        str     x8, [sp, #80]
        stp     q0, q1, [sp, #96]
        stp     q2, q3, [sp, #128]
        stp     q4, q5, [sp, #160]
        stp     q6, q7, [sp, #192]
        mov     w0, w16
        bl      pass_resolve
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x2, x3, [sp, #32]
        ldp     x4, x5, [sp, #48]
        ldp     x6, x7, [sp, #64]
        ldr     x8, [sp, #80]
        ldp     q0, q1, [sp, #96]
        ldp     q2, q3, [sp, #128]
        ldp     q4, q5, [sp, #160]
        ldp     q6, q7, [sp, #192]
        ldp     x29, x30, [sp], #224
        .cfi_restore x29
        .cfi_restore x30
        .cfi_def_cfa_offset 0
        br      x16
        .cfi_endproc
        .size   pass_unknown, . - pass_unknown

        .globl  pass_base
        .hidden pass_base
        .p2align 4
pass_base:
        .set    row, 0
#define HOOK(sym, handler) .set row, row + 1;
#define PASS(sym) TRAMPOLINE sym; .set row, row + 1;
#include "driver.def"
