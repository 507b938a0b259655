/* How the guard reads a driver's version. */
#include "guard_calls.h"

#include "base/file.h"
#include "guard/nvidia/abi.h"
#include "guard/nvidia/branch.h"

#include <errno.h>

/* What the guard makes of a driver whose version file has this text. */
static int read_text(const char *text, struct rm_version *ret_version)
{
    const struct rm_branch *found;

    assert_int_equal(file_write_atomic(scratch_path("version"), text, strlen(text), 0600), 0);
    return branch_read(scratch(), ret_version, &found);
}

TEST(versions)
{
    static const char open_text[] = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  "
                                    "580.126.20  Release Build  (dvs-builder@U22)  Fri\n"
                                    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
    static const char closed_text[] =
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 "
        "UTC 2024\nGCC version:  Selected Open 1.2.3\n";
    struct rm_version version;

    assert_int_equal(read_text(open_text, &version), 0);
    assert_true(version.major == 580 && version.minor == 126);
    assert_string_equal(version.text, "580.126.20");
    assert_true(version.open_modules);
    assert_int_equal(read_text(closed_text, &version), 0);
    assert_true(version.major == 550 && version.minor == 54);
    assert_string_equal(version.text, "550.54.15");
    assert_false(version.open_modules);
    /* Two numbers; the word is the last. */
    assert_int_equal(read_text("NVRM version: NVIDIA UNIX aarch64 Kernel Module 550.120", &version),
                     0);
    assert_string_equal(version.text, "550.120");
}

TEST(no_versions)
{
    static const char *const texts[] = {
        "",
        "580.126.20",
        "NVRM version:",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module\nGCC version:  gcc version 12.2.0\n",
        "NVRM version: .580.1",
        "NVRM version: 580.",
        "NVRM version: 580..1",
        "NVRM version: 580",
        "NVRM version: 580.1.2.3",
        "NVRM version: 0.1.2",
        "NVRM version: 580.126.20rc",
        "NVRM version: 99999999999999999999.1",
        "NVRM version: 580.1111111111111111111111111111111111111111",
    };
    struct rm_version version = {.major = 7};

    for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_int_equal(read_text(texts[i], &version), -EINVAL);
        assert_int_equal(version.major, 7);
    }
}

TEST(branches)
{
    struct rm_version version;
    char text[BRANCH_LIST_BYTES], small[6], list[BRANCH_LIST_BYTES] = "";

    for (unsigned i = 0; i < sizeof(branch_rows) / sizeof(branch_rows[0]); i++) {
        const struct rm_branch *row = &branch_rows[i], *found = NULL;

        snprintf(text, sizeof(text), "NVRM version: %u.%u", row->major, row->minor_from);
        assert_int_equal(file_write_atomic(scratch_path("version"), text, strlen(text), 0600), 0);
        assert_int_equal(branch_read(scratch(), &version, &found), 0);
        assert_memory_equal(found, row, sizeof(*row));
        snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%u", i ? ", " : "",
                 row->major);
    }
    assert_int_equal(read_text("NVRM version: 581.1", &version), -ENOENT);
    assert_int_equal(read_text("NVRM version: 550.40", &version), -ENOENT);
    assert_int_equal(read_text("NVRM version: 550.54", &version), 0);
    assert_int_equal(branch(550)->fb_info_bytes, 444);
    assert_int_equal(branch(570)->fb_info_bytes, 460);
    assert_int_equal(branch(580)->fb_info_bytes, sizeof(struct rm_fb_info));
    assert_int_equal(branch(570)->schedule_bytes, 2);
    assert_int_equal(branch(580)->schedule_bytes, 3);
    assert_int_equal(branch(580)->uvm_free_bytes, 24);
    assert_int_equal(branch(595)->uvm_free_bytes, 16);
    assert_string_equal(branch_list(text, sizeof(text)), list);
    assert_string_equal(branch_list(small, sizeof(small)), "550, ");
}

TEST(reading)
{
    static const char known[] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  595.45.04  Tue\n";
    static const char unknown[] = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  700.1  Tue\n";
    struct rm_version version;
    const struct rm_branch *found = NULL;

    assert_int_equal(file_write_atomic(scratch_path("version"), known, sizeof(known) - 1, 0600), 0);
    assert_int_equal(branch_read(scratch(), &version, &found), 0);
    assert_int_equal(found->major, 595);
    found = NULL;
    assert_int_equal(file_write_atomic(scratch_path("version"), unknown, sizeof(unknown) - 1, 0600),
                     0);
    assert_int_equal(branch_read(scratch(), &version, &found), -ENOENT);
    assert_string_equal(version.text, "700.1");
    assert_null(found);
    assert_int_equal(file_write_atomic(scratch_path("version"), "", 0, 0600), 0);
    assert_int_equal(branch_read(scratch(), &version, &found), -EINVAL);
}
