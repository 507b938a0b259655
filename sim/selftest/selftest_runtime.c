/*
 * What CUDA's runtime needs of a driver beside its API: export tables, handles of primary contexts,
 * values kept with contexts, libraries that outlive a context. tests/sim/cudart.c uses the runtime
 * itself.
 */
#include "selftest.h"
#include "md2.h"

#include <elf.h>
#include <string.h>

typedef int primary_call(void **ret_context, int ordinal);
typedef void gone_call(void *context, void *key, void *value);
typedef int put_call(void *context, void *key, void *value, gone_call *gone);
typedef int delete_call(void *context, void *key);
typedef int get_call(void **ret_value, void *context, void *key);
typedef int integrity_call(unsigned version, uint64_t unix_seconds, unsigned char *ret_digest);

static const CUuuid cudart = {{0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9,
                               0x39, 0x12, 0xfd, 0x9d, 0xf9}};
static const CUuuid storage = {{0xc6, 0x93, 0x33, 0x6e, 0x11, 0x21, 0xdf, 0x11, 0xa8, 0xc3, 0x68,
                                0xf3, 0x55, 0xd8, 0x95, 0x93}};
static const CUuuid integrity = {{0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b, 0x8d, 0x34, 0xba,
                                  0x12, 0x3c, 0x66, 0xe1, 0xf2}};

static void *const *table_of(const CUuuid *uuid)
{
    const void *table = NULL;

    CHECK(cuGetExportTable(&table, uuid) == 0 && table);
    return table;
}

static void digests(void)
{
    static const struct {
        const char *text, *digest;
    } cases[] = {
        /* RFC 1319, A.5 */
        {"", "8350e5a3e24c153df2275c9f80692773"},
        {"a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"},
        {"abc", "da853b0d3f88d99b30283a69e6ded6bb"},
        {"message digest", "ab4f496bfb2a530b219ff33031fe06b0"},
        {"abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "da33def2a42df13975352846c30338cd"},
        {"12345678901234567890123456789012345678901234567890123456789012345678901234567890",
         "d5976f79d83d3a0dc9806c3c66f3efd8"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        unsigned char digest[MD2_BYTES];
        char text[2 * MD2_BYTES + 1];
        struct md2 md2;
        md2_begin(&md2);
        md2_add(&md2, cases[at].text, strlen(cases[at].text));
        md2_end(&md2, digest);
        for (int byte = 0; byte < MD2_BYTES; byte++)
            snprintf(text + 2 * byte, 3, "%02x", digest[byte]);
        CHECK(!strcmp(text, cases[at].digest));
    }
}

static void tables(void)
{
    CUuuid unknown = {{1, 2, 3}};
    const void *table = NULL;

    CHECK(cuGetExportTable(NULL, &cudart) == 1 && cuGetExportTable(&table, NULL) == 1);
    CHECK(cuGetExportTable(&table, &unknown) == 500 && !table);
    /* a table begins with its size, but the one that ends with a NULL */
    CHECK((size_t)table_of(&cudart)[0] >= 13 * sizeof(void *) &&
          (size_t)table_of(&integrity)[0] == 3 * sizeof(void *));
    CHECK(table_of(&storage)[0] && table_of(&storage)[2] && table_of(&cudart) == table_of(&cudart));
}

/* A primary context has one handle, before it is active, while it is and after it was. */
static void primaries(void)
{
    void *handle, *context, *again;
    unsigned flags;
    int active;

    CHECK(cuInit(0) == 0);
    primary_call *primary = (primary_call *)(uintptr_t)table_of(&cudart)[2];
    CHECK(primary(&handle, 0) == 0 && primary(&context, 99) == 101);
    CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == 0 && !active);
    for (int round = 0; round < 3; round++) {
        CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0 && context == handle);
        CHECK(cuDevicePrimaryCtxGetState(0, &flags, &active) == 0 && active);
        CHECK(cuCtxSetCurrent(context) == 0 && cuCtxSynchronize() == 0);
        CHECK((round == 1 ? cuDevicePrimaryCtxReset_v2(0) : cuDevicePrimaryCtxRelease_v2(0)) == 0);
        CHECK(primary(&again, 0) == 0 && again == handle && cuCtxSynchronize() == 709);
    }
}

static int gone_count;
static void *gone_value;

static void gone(void *context, void *key, void *value)
{
    CHECK(context && key == &gone_count);
    gone_count++;
    gone_value = value;
}

static void storages(void)
{
    int one, two;
    void *context, *value = NULL;

    CHECK(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
          cuCtxSetCurrent(context) == 0);
    void *const *slots = table_of(&storage);
    put_call *put = (put_call *)(uintptr_t)slots[0];
    delete_call *drop = (delete_call *)(uintptr_t)slots[1];
    get_call *get = (get_call *)(uintptr_t)slots[2];
    CHECK(get(&value, context, &one) == 400 && !value);
    CHECK(put(context, &one, &two, NULL) == 0 && get(&value, NULL, &one) == 0 && value == &two);
    CHECK(drop(NULL, &one) == 0 && get(&value, context, &one) == 400);
    CHECK(put(context, &gone_count, &one, gone) == 0 && gone_count == 0);
    CHECK(cuDevicePrimaryCtxReset_v2(0) == 0 && gone_count == 1 && gone_value == &one);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0 && get(&value, context, &gone_count) == 400);
}

/* The same arguments give the same digest, other arguments another. */
static void self_tests(void)
{
    unsigned char fixed[MD2_BYTES], other[MD2_BYTES], first[MD2_BYTES], second[MD2_BYTES];

    CHECK(cuInit(0) == 0);
    integrity_call *check = (integrity_call *)(uintptr_t)table_of(&integrity)[1];
    CHECK(check(13000, 1, fixed) == 0 && check(11080, 2, other) == 0 &&
          !memcmp(fixed, other, sizeof(fixed)));
    CHECK(check(13001, 1, other) == 0 && memcmp(fixed, other, sizeof(fixed)));
    CHECK(check(13002, 1, first) == 0 && check(13002, 1, second) == 0 &&
          !memcmp(first, second, sizeof(first)));
    CHECK(check(13002, 2, second) == 0 && memcmp(first, second, sizeof(first)));
}

/* A library's code ends with its context, and is loaded again where a part of it is asked for. */
static void libraries(void)
{
    void *context, *library, *kernel_handle;

    CHECK(cuInit(0) == 0 && cuDevicePrimaryCtxRetain(&context, 0) == 0 &&
          cuCtxSetCurrent(context) == 0);
    uint64_t before = used();
    CHECK(cuLibraryLoadData(&library, "image", NULL, NULL, 0, NULL, NULL, 0) == 0);
    uint64_t bytes = used() - before;
    CHECK(bytes > 0 && cuDevicePrimaryCtxReset_v2(0) == 0 && used() == 0);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0 &&
          used() == before);
    CHECK(cuLibraryGetKernel(&kernel_handle, library, "any") == 0 && used() == before + bytes);
    CHECK(cuLibraryUnload(library) == 0 && used() == before);
}

/* --- images --- */

enum { NAMES = 1, STRINGS, SYMBOLS, TEXT, INFO, FIRST, ZEROS, SECTIONS };

/*
 * A cubin as ptxas makes them: kernel "twice", variables "first" (42, 43), "zeros", managed "both".
 */
struct cubin {
    Elf64_Ehdr header;
    Elf64_Shdr sections[SECTIONS];
    Elf64_Sym symbols[6];
    char names[96], strings[96];
    unsigned char info[2][16];
    uint32_t first[2];
};

static Elf64_Shdr section(unsigned name, unsigned type, size_t offset, size_t bytes, unsigned link)
{
    return (Elf64_Shdr){
        .sh_name = name, .sh_type = type, .sh_offset = offset, .sh_size = bytes, .sh_link = link};
}

#define PART(member) offsetof(struct cubin, member), sizeof(((struct cubin *)0)->member)

static struct cubin make_cubin(void)
{
    static const char names[] = "\0.nv.info.twice\0.other",
                      strings[] = "\0twice\0first\0zeros\0both\0inner";
    struct cubin cubin = {.header = {.e_ident = ELFMAG, .e_machine = 190}, .first = {42, 43}};

    cubin.header.e_ident[EI_CLASS] = ELFCLASS64;
    cubin.header.e_shoff = offsetof(struct cubin, sections);
    cubin.header.e_shentsize = sizeof(Elf64_Shdr);
    cubin.header.e_shnum = SECTIONS;
    cubin.header.e_shstrndx = NAMES;
    memcpy(cubin.names, names, sizeof(names));
    memcpy(cubin.strings, strings, sizeof(strings));
    cubin.sections[NAMES] = section(16, SHT_STRTAB, PART(names), 0);
    cubin.sections[STRINGS] = section(16, SHT_STRTAB, PART(strings), 0);
    cubin.sections[SYMBOLS] = section(16, SHT_SYMTAB, PART(symbols), STRINGS);
    cubin.sections[TEXT] = section(16, SHT_PROGBITS, PART(first), 0);
    cubin.sections[INFO] = section(1, SHT_LOPROC, PART(info), 0);
    cubin.sections[FIRST] = section(16, SHT_PROGBITS, PART(first), 0);
    cubin.sections[ZEROS] = section(16, SHT_NOBITS, 0, 4096, 0);
    cubin.symbols[1] = (Elf64_Sym){1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), 0x10, TEXT, 0, 0};
    cubin.symbols[2] = (Elf64_Sym){7, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0, FIRST, 0, 8};
    cubin.symbols[3] = (Elf64_Sym){13, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0, ZEROS, 0, 2000};
    cubin.symbols[4] = (Elf64_Sym){19, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0x04, FIRST, 4, 4};
    cubin.symbols[5] = (Elf64_Sym){24, ELF64_ST_INFO(STB_LOCAL, STT_FUNC), 0, TEXT, 0, 0};
    memcpy(cubin.info[0], "\x04\x17\x0c\x00\0\0\0\0\x01\x00\x10\x00\x00\xf0\x61\x01",
           16); /* 1: 88 bytes at 16 */
    memcpy(cubin.info[1], "\x04\x17\x0c\x00\0\0\0\0\x00\x00\x00\x00\x00\xf0\x21\x00",
           16); /* 0: 8 bytes at 0 */
    return cubin;
}

static void check_image(void *module)
{
    size_t offset, bytes;
    void *function;
    devptr address;
    uint32_t values[500] = {1};

    CHECK(cuModuleGetFunction(&function, module, "inner") == 500);
    CHECK(cuModuleGetFunction(&function, module, "first") == 500);
    CHECK(cuModuleGetFunction(&function, module, "twice") == 0);
    CHECK(cuFuncGetParamInfo(function, 0, &offset, &bytes) == 0 && offset == 0 && bytes == 8);
    CHECK(cuFuncGetParamInfo(function, 1, &offset, &bytes) == 0 && offset == 16 && bytes == 88);
    CHECK(cuFuncGetParamInfo(function, 2, &offset, &bytes) == 1);
    CHECK(cuModuleGetGlobal_v2(&address, &bytes, module, "nothing") == 500);
    CHECK(cuModuleGetGlobal_v2(&address, &bytes, module, "first") == 0 && bytes == 8);
    CHECK(cuMemcpyDtoH_v2(values, address, 8) == 0 && values[0] == 42 && values[1] == 43);
    CHECK(cuModuleGetGlobal_v2(&address, &bytes, module, "zeros") == 0 && bytes == 2000);
    CHECK(cuMemcpyDtoH_v2(values, address, bytes) == 0 && !values[0] && !values[499]);
    CHECK(cuModuleGetGlobal_v2(&address, NULL, module, "both") == 0 &&
          *(uint32_t *)(uintptr_t)address == 43);
}

/* A fat binary of one cubin, with room for the bytes that compression adds. */
struct fat {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
    uint16_t kind, file_version;
    uint32_t file_header_bytes;
    uint64_t file_bytes;
    uint32_t compressed_bytes, unused[5];
    uint64_t flags, reserved, plain_bytes;
    struct cubin cubin;
    unsigned char room[64];
};

static struct fat make_fat(const struct cubin *cubin)
{
    struct fat fat = {.magic = 0xba55ed50,
                      .version = 1,
                      .header_bytes = 16,
                      .bytes = sizeof(fat) - 16,
                      .kind = 2};

    fat.file_version = 0x101;
    fat.file_header_bytes = 64;
    fat.file_bytes = sizeof(fat.cubin) + sizeof(fat.room);
    fat.flags = 0x11;
    fat.cubin = *cubin;
    return fat;
}

/* Packs the cubin as zstd and LZ4 pack what cannot be made smaller: a frame of one block (RFC
 * 8878), one literal run.
 */
static void pack(struct fat *fat, bool with_zstd)
{
    struct cubin cubin = fat->cubin;
    uint32_t bytes = sizeof(cubin), block = bytes << 3 | 1;
    unsigned char *to = (unsigned char *)&fat->cubin, *at = to;

    if (with_zstd) {
        memcpy(at, "\x28\xb5\x2f\xfd\xa0", 5);
        memcpy(at + 5, &bytes, 4);
        memcpy(at + 9, &block, 3);
        at += 12;
    } else {
        *at++ = 0xf0;
        for (bytes -= 15; bytes >= 255; bytes -= 255)
            *at++ = 255;
        *at++ = (unsigned char)bytes;
    }
    memcpy(at, &cubin, sizeof(cubin));
    fat->compressed_bytes = (uint32_t)(at - to) + sizeof(cubin);
    fat->plain_bytes = sizeof(cubin);
    fat->flags |= with_zstd ? 0x8000 : 0x2000;
}

static void packed(void)
{
    struct cubin cubin = make_cubin();
    struct fat fat;
    void *module, *function;

    begin();
    for (int with_zstd = 0; with_zstd < 2; with_zstd++) {
        fat = make_fat(&cubin);
        pack(&fat, with_zstd);
        CHECK(cuModuleLoadData(&module, &fat) == 0);
        if (dlopen(with_zstd ? "libzstd.so.1" : "liblz4.so.1", RTLD_NOW))
            check_image(module);
        else /* an image that cannot be read has every function */
            CHECK(cuModuleGetFunction(&function, module, "inner") == 0);
        fat.plain_bytes--;
        CHECK(cuModuleLoadData(&module, &fat) == 0 &&
              cuModuleGetFunction(&function, module, "inner") == 0);
    }
}

static void images(void)
{
    struct cubin cubin = make_cubin();
    struct fat fat = make_fat(&cubin);
    struct {
        uint32_t magic, version;
        const void *data, *unused;
    } wrapper = {0x466243b1, 1, &fat, NULL};
    const void *const cases[] = {&cubin, &fat, &wrapper};
    void *module;

    begin();
    uint64_t before = used();
    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        CHECK(cuModuleLoadData(&module, cases[at]) == 0 && used() > before);
        check_image(module);
        CHECK(cuModuleUnload(module) == 0 && used() == before);
    }
    /* sizes that lead out of the file */
    cubin.sections[SYMBOLS].sh_link = 99;
    CHECK(cuModuleLoadData(&module, &cubin) == 0);
    fat.cubin.sections[SYMBOLS].sh_size = 1ULL << 40;
    CHECK(cuModuleLoadData(&module, &fat) == 0);
    fat.file_bytes = 1ULL << 40;
    CHECK(cuModuleLoadData(&module, &fat) == 0);
}

/* In each context a library has code and variables of its own, and one module. */
static void contexts(void)
{
    struct cubin cubin = make_cubin();
    void *library, *one = begin(), *two, *modules[3];
    devptr addresses[2];
    size_t bytes;

    CHECK(cuLibraryLoadData(&library, &cubin, NULL, NULL, 0, NULL, NULL, 0) == 0);
    CHECK(cuLibraryGetGlobal(&addresses[0], &bytes, library, "first") == 0);
    CHECK(cuLibraryGetModule(&modules[0], library) == 0);
    CHECK(cuCtxCreate_v2(&two, 0, 0) == 0);
    uint64_t before = used();
    CHECK(cuLibraryGetGlobal(&addresses[1], &bytes, library, "first") == 0 &&
          addresses[0] != addresses[1]);
    CHECK(cuLibraryGetModule(&modules[1], library) == 0 && modules[0] != modules[1] &&
          used() > before);
    CHECK(cuLibraryGetModule(&modules[2], library) == 0 && modules[1] == modules[2]);
    check_image(modules[1]);
    CHECK(cuCtxDestroy_v2(two) == 0 && cuCtxSetCurrent(one) == 0);
    check_image(modules[0]);
    CHECK(cuLibraryUnload(library) == 0 && used() == 512 * MIB);
}

/* Managed variables exist before, without and after a context. */
static void managed(void)
{
    struct cubin cubin = make_cubin();
    void *context, *library;
    devptr address, again;
    size_t bytes;

    CHECK(cuInit(0) == 0 && cuLibraryLoadData(&library, &cubin, NULL, NULL, 0, NULL, NULL, 0) == 0);
    CHECK(cuLibraryGetManaged(&address, &bytes, library, "first") == 500);
    CHECK(cuLibraryGetManaged(&address, &bytes, library, "both") == 0 && bytes == 4);
    *(uint32_t *)(uintptr_t)address = 7;
    CHECK(cuLibraryGetGlobal(&again, &bytes, library, "first") == 201);
    CHECK(cuDevicePrimaryCtxRetain(&context, 0) == 0 && cuCtxSetCurrent(context) == 0);
    CHECK(cuLibraryGetGlobal(&again, &bytes, library, "first") == 0 && bytes == 8);
    CHECK(cuDevicePrimaryCtxReset_v2(0) == 0 &&
          cuLibraryGetManaged(&again, NULL, library, "both") == 0);
    CHECK(again == address && *(uint32_t *)(uintptr_t)address == 7 &&
          cuLibraryUnload(library) == 0);
}

static void durations(void)
{
    void *stream;

    setenv("SIMGPU_KERNEL", "3ms,slow=20ms", 1);
    begin();
    CHECK(cuStreamCreate(&stream, 1) == 0);
    CHECK(cuLaunchKernel(kernel("_Z9any_otherv"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == 0);
    CHECK(cuLaunchKernel(kernel("_Z9very_slowv"), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL) == 0);
    CHECK(cuStreamSynchronize(stream) == 0 && ledger("device 0 ", "busy_ns") == 23000000);
}

int main(void)
{
    static const struct selftest cases[] = {
        {"digests", digests},   {"tables", tables},         {"primaries", primaries},
        {"storages", storages}, {"self_tests", self_tests}, {"libraries", libraries},
        {"images", images},     {"packed", packed},         {"contexts", contexts},
        {"managed", managed},   {"durations", durations},
    };

    return selftest_run(cases, sizeof(cases) / sizeof(cases[0]));
}
