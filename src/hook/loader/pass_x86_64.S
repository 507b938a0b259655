/* Counting trampolines for x86-64; see pass.h. r10, r11 and rax carry nothing at the entry of a function. */

#include "hook/loader/pass.h"

        .section .note.GNU-stack, "", @progbits
        .text

        .macro  TRAMPOLINE name
        .globl  \name
        .type   \name, @function
        .org    pass_base + PASS_BYTES * row
\name:
        endbr64
        movl    $row, %eax
        jmp     pass_count
        .size   \name, . - \name
        .endm

        .type   pass_count, @function
        .p2align 4
pass_count:
        .cfi_startproc
        movq    trace_rows(%rip), %r11
        movl    %eax, %r10d
        shlq    $4, %r10
        addq    %r10, %r11
        lock incq (%r11)
        leaq    hook_real(%rip), %r11
        movq    (%r11,%rax,8), %r11
        testq   %r11, %r11
        jz      pass_unknown
        jmp     *%r11
        .cfi_endproc
        .size   pass_count, . - pass_count

/* Asks pass_resolve() where to jump, with every argument register kept. */
        .type   pass_unknown, @function
pass_unknown:
        .cfi_startproc
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_offset rbp, -16
        movq    %rsp, %rbp
        .cfi_def_cfa_register rbp
        andq    $-16, %rsp
        subq    $176, %rsp
        movq    %rdi, 0(%rsp)
        movq    %rsi, 8(%rsp)
        movq    %rdx, 16(%rsp)
        movq    %rcx, 24(%rsp)
        movq    %r8, 32(%rsp)
        movq    %r9, 40(%rsp)
        movaps  %xmm0, 48(%rsp)
        movaps  %xmm1, 64(%rsp)
        movaps  %xmm2, 80(%rsp)
        movaps  %xmm3, 96(%rsp)
        movaps  %xmm4, 112(%rsp)
        movaps  %xmm5, 128(%rsp)
        movaps  %xmm6, 144(%rsp)
        movaps  %xmm7, 160(%rsp)
        movl    %eax, %edi
        call    pass_resolve
        movq    %rax, %r11
        movq    0(%rsp), %rdi
        movq    8(%rsp), %rsi
        movq    16(%rsp), %rdx
        movq    24(%rsp), %rcx
        movq    32(%rsp), %r8
        movq    40(%rsp), %r9
        movaps  48(%rsp), %xmm0
        movaps  64(%rsp), %xmm1
        movaps  80(%rsp), %xmm2
        movaps  96(%rsp), %xmm3
        movaps  112(%rsp), %xmm4
        movaps  128(%rsp), %xmm5
        movaps  144(%rsp), %xmm6
        movaps  160(%rsp), %xmm7
        leave
        .cfi_def_cfa rsp, 8
        .cfi_restore rbp
        jmp     *%r11
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
