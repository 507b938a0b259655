/*
 * Modules, libraries, functions. Any image loads. An image that simgpu can read has the functions
 * in it; any other has every function that is asked for. "simgpu_busy" takes as many nanoseconds as
 * its one 64-bit argument says. "simgpu_until" runs until a word in memory has a value. Every other
 * function takes what SIMGPU_KERNEL says.
 */
#include "module.h"
#include "code.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim_module {
    unsigned magic;
    struct sim_context *context;
    struct sim_library *library; /* library whose code it has; NULL: it has its own */
    struct sim_code code;
    struct sim_function *functions;
    struct sim_module *next;
};

struct sim_library {
    unsigned magic;
    struct sim_code code;
    struct sim_function *functions;
    struct sim_library *next;
};

static struct sim_library *libraries; /* guarded by sim.mutex */

static const struct sim_code *code_of(const struct sim_module *module)
{
    return module->library ? &module->library->code : &module->code;
}

static int function_of(struct sim_function **list, const char *name, struct sim_module *module,
                       struct sim_library *library, struct sim_function **ret_function)
{
    const struct sim_image *image = module ? code_of(module)->image : library->code.image;
    const struct sim_symbol *symbol = image_kernel(image, name);

    for (struct sim_function *function = *list; function; function = function->next) {
        if (!strcmp(function->name, name)) {
            *ret_function = function;
            return CUDA_SUCCESS;
        }
    }
    if (image && !symbol)
        return CUDA_ERROR_NOT_FOUND;
    struct sim_function *function =
        sim_object(sizeof(*function) + strlen(name) + 1, MAGIC_FUNCTION);
    if (!function)
        return CUDA_ERROR_OUT_OF_MEMORY;
    strcpy(function->name, name);
    function->kind = !strcmp(name, "simgpu_busy")    ? FUNCTION_BUSY
                     : !strcmp(name, "simgpu_until") ? FUNCTION_UNTIL
                                                     : FUNCTION_ANY;
    function->duration_ns = fault_kernel_ns(name);
    function->symbol = symbol;
    function->module = module;
    function->library = library;
    function->next = *list;
    *list = function;
    *ret_function = function;
    return CUDA_SUCCESS;
}

int function_parameters(const struct sim_function *function, const unsigned char **ret_bytes)
{
    static const unsigned char until[] = {8, 4};

    *ret_bytes = until; /* the busy kernel has only the first */
    return function->kind == FUNCTION_UNTIL ? 2 : function->kind == FUNCTION_BUSY;
}

bool function_arguments(const struct sim_function *function, void **params, void **extra,
                        uint64_t values[2])
{
    enum { END, BUFFER, SIZE }; /* CU_LAUNCH_PARAM_... */
    const unsigned char *bytes, *buffer = NULL;
    int count = function_parameters(function, &bytes);

    values[0] = values[1] = 0;
    for (int at = 0; !params && extra && extra[at]; at += 2) {
        if (extra[at] == (void *)BUFFER)
            buffer = extra[at + 1];
    }
    for (int at = 0; at < count; at++) {
        const void *from = params ? params[at] : buffer;
        if (!from)
            return false;
        memcpy(&values[at], params ? from : buffer + (at ? bytes[0] : 0), bytes[at]);
    }
    return count > 0;
}

struct sim_kernel function_kernel(const struct sim_function *function, void **params, void **extra)
{
    struct sim_kernel kernel = {.duration_ns = function->duration_ns};
    uint64_t values[2];

    if (!function_arguments(function, params, extra, values))
        return kernel;
    kernel.until = function->kind == FUNCTION_UNTIL;
    kernel.duration_ns = kernel.until ? SIM_FOREVER_NS : values[0];
    kernel.address = values[0];
    kernel.value = (uint32_t)values[1];
    return kernel;
}

static void retire_functions(struct sim_function *function)
{
    while (function) {
        struct sim_function *next = function->next;
        free(function->parameters);
        function->parameters = NULL;
        handle_retire(function);
        function = next;
    }
}

static void module_free(struct sim_module *module)
{
    LIST_REMOVE(module->context->modules, module);
    code_end(&module->code);
    retire_functions(module->functions);
    handle_retire(module);
}

/* A library outlives the context; its code in the context does not. */
void module_context_end(struct sim_context *context)
{
    while (context->modules)
        module_free(context->modules);
    for (struct sim_library *library = libraries; library; library = library->next)
        code_leave(&library->code, context);
}

/* Owns the image, which may be NULL. */
static int load_image(struct sim_module **ret_module, struct sim_image *image)
{
    struct sim_context *context;

    int code = context_need(&context);
    struct sim_module *module = code ? NULL : sim_object(sizeof(*module), MAGIC_MODULE);
    if (!module) {
        image_free(image);
        return code ? code : CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_lock();
    code = code_begin(&module->code, image);
    if (!code)
        code = code_load(&module->code, context);
    if (code) {
        code_end(&module->code);
    } else {
        module->context = context;
        module->next = context->modules;
        context->modules = module;
    }
    sim_unlock();
    if (code) {
        free(module);
        return code;
    }
    *ret_module = module;
    return CUDA_SUCCESS;
}

int module_load(struct sim_module **ret_module, const void *image)
{
    struct sim_image *read;

    NEED_CONTEXT(context);
    if (!ret_module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    return image_read(image, &read) ? load_image(ret_module, read) : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuModuleLoad, struct sim_module **ret_module, const char *path)
{
    struct sim_image *image;

    ENTER_KERNEL(cuModuleLoad);
    if (!path || !ret_module)
        return CUDA_ERROR_INVALID_VALUE;
    if (access(path, R_OK))
        return CUDA_ERROR_FILE_NOT_FOUND;
    return image_read_file(path, &image) ? load_image(ret_module, image) : CUDA_ERROR_OUT_OF_MEMORY;
}

API_AS_KERNEL(cuModuleLoadData, module_load(ret_module, image), struct sim_module **ret_module,
              const void *image)

API(cuModuleLoadDataEx, struct sim_module **ret_module, const void *image, unsigned count,
    CUjit_option *options, void **values)
{
    ENTER_KERNEL(cuModuleLoadDataEx);
    if (count && (!options || !values))
        return CUDA_ERROR_INVALID_VALUE;
    return module_load(ret_module, image);
}

API_AS_KERNEL(cuModuleLoadFatBinary, module_load(ret_module, image), struct sim_module **ret_module,
              const void *image)

API(cuModuleUnload, struct sim_module *module)
{
    ENTER_KERNEL(cuModuleUnload);
    if (!IS(module, MAGIC_MODULE) || module->library)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    module_free(module);
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuModuleGetFunction, struct sim_function **ret_function, struct sim_module *module,
    const char *name)
{
    ENTER(cuModuleGetFunction);
    if (!IS(module, MAGIC_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = function_of(&module->functions, name, module, module->library, ret_function);
    sim_unlock();
    return code;
}

API(cuModuleGetFunctionCount, unsigned *ret_count, struct sim_module *module)
{
    ENTER(cuModuleGetFunctionCount);
    if (!IS(module, MAGIC_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_count)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_count = 0;
    for (struct sim_function *function = module->functions; function; function = function->next)
        ++*ret_count;
    return CUDA_SUCCESS;
}

API(cuModuleGetGlobal_v2, devptr *ret_address, size_t *ret_bytes, struct sim_module *module,
    const char *name)
{
    ENTER(cuModuleGetGlobal_v2);
    if (!IS(module, MAGIC_MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = code_variable(code_of(module), module->context, name, ret_address, ret_bytes);
    sim_unlock();
    return code;
}

API(cuModuleGetLoadingMode, int *ret_mode)
{
    ENTER(cuModuleGetLoadingMode);
    if (!ret_mode)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_mode = sim.lazy ? 2 : 1; /* eager */
    return CUDA_SUCCESS;
}

/* The library's module in a context. NULL: the program has not asked for it. */
static struct sim_module *module_of(const struct sim_library *library,
                                    const struct sim_context *context)
{
    struct sim_module *module = context->modules;

    while (module && module->library != library)
        module = module->next;
    return module;
}

/* Loads a library into the current context, when the program first asks for a part of it there. */
static int settle(struct sim_library *library)
{
    struct sim_context *context = sim_current();

    return !context || context->dead ? CUDA_SUCCESS : code_load(&library->code, context);
}

/* Owns the image, which may be NULL. */
static int load_library(struct sim_library **ret_library, struct sim_image *image)
{
    struct sim_library *library = sim_object(sizeof(*library), MAGIC_LIBRARY);

    if (!library) {
        image_free(image);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_lock();
    int code = code_begin(&library->code, image);
    if (!code)
        code = settle(library);
    if (code) {
        code_end(&library->code);
    } else {
        library->next = libraries;
        libraries = library;
    }
    sim_unlock();
    if (code)
        free(library);
    else
        *ret_library = library;
    return code;
}

API(cuLibraryLoadData, struct sim_library **ret_library, const void *image, CUjit_option *jit,
    void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    struct sim_image *read;

    ENTER_KERNEL(cuLibraryLoadData);
    if ((jit_count && (!jit || !jit_values)) || (count && (!options || !values)) || !ret_library ||
        !image)
        return CUDA_ERROR_INVALID_VALUE;
    return image_read(image, &read) ? load_library(ret_library, read) : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuLibraryLoadFromFile, struct sim_library **ret_library, const char *path, CUjit_option *jit,
    void **jit_values, unsigned jit_count, CUlibraryOption *options, void **values, unsigned count)
{
    struct sim_image *image;

    ENTER_KERNEL(cuLibraryLoadFromFile);
    if ((jit_count && (!jit || !jit_values)) || (count && (!options || !values)) || !ret_library ||
        !path)
        return CUDA_ERROR_INVALID_VALUE;
    if (access(path, R_OK))
        return CUDA_ERROR_FILE_NOT_FOUND;
    return image_read_file(path, &image) ? load_library(ret_library, image)
                                         : CUDA_ERROR_OUT_OF_MEMORY;
}

API(cuLibraryUnload, struct sim_library *library)
{
    ENTER_KERNEL(cuLibraryUnload);
    if (!IS(library, MAGIC_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    sim_lock();
    code_end(&library->code);
    LIST_REMOVE(libraries, library);
    for (struct sim_context *context = sim.contexts; context; context = context->next) {
        struct sim_module *module = module_of(library, context);
        if (module)
            module_free(module);
    }
    retire_functions(library->functions);
    handle_retire(library);
    sim_unlock();
    return CUDA_SUCCESS;
}

API(cuLibraryGetKernel, struct sim_function **ret_kernel, struct sim_library *library,
    const char *name)
{
    ENTER(cuLibraryGetKernel);
    if (!IS(library, MAGIC_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_kernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = settle(library);
    if (!code)
        code = function_of(&library->functions, name, NULL, library, ret_kernel);
    sim_unlock();
    return code;
}

API(cuLibraryGetModule, struct sim_module **ret_module, struct sim_library *library)
{
    ENTER(cuLibraryGetModule);
    NEED_CONTEXT(context);
    if (!IS(library, MAGIC_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_module)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = settle(library);
    struct sim_module *module = code ? NULL : module_of(library, context);
    if (!code && !module) {
        module = sim_object(sizeof(*module), MAGIC_MODULE);
        if (module) {
            module->library = library;
            module->context = context;
            module->next = context->modules;
            context->modules = module;
        } else {
            code = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim_unlock();
    if (!code)
        *ret_module = module;
    return code;
}

API(cuLibraryGetKernelCount, unsigned *ret_count, struct sim_library *library)
{
    ENTER(cuLibraryGetKernelCount);
    if (!IS(library, MAGIC_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_count)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_count = 0;
    for (struct sim_function *function = library->functions; function; function = function->next)
        ++*ret_count;
    return CUDA_SUCCESS;
}

API(cuLibraryGetGlobal, devptr *ret_address, size_t *ret_bytes, struct sim_library *library,
    const char *name)
{
    ENTER(cuLibraryGetGlobal);
    if (!IS(library, MAGIC_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    NEED_CONTEXT(context);
    sim_lock();
    int code = settle(library);
    if (!code)
        code = code_variable(&library->code, context, name, ret_address, ret_bytes);
    sim_unlock();
    return code;
}

API(cuLibraryGetManaged, devptr *ret_address, size_t *ret_bytes, struct sim_library *library,
    const char *name)
{
    ENTER(cuLibraryGetManaged);
    if (!IS(library, MAGIC_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_lock();
    int code = code_managed(&library->code, name, ret_address, ret_bytes);
    sim_unlock();
    return code;
}

API(cuKernelGetFunction, struct sim_function **ret_function, struct sim_function *kernel)
{
    ENTER(cuKernelGetFunction);
    NEED_CONTEXT(context);
    if (!IS(kernel, MAGIC_FUNCTION))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_function)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_function = kernel;
    return CUDA_SUCCESS;
}

API(cuKernelGetLibrary, struct sim_library **ret_library, struct sim_function *kernel)
{
    ENTER(cuKernelGetLibrary);
    if (!IS(kernel, MAGIC_FUNCTION) || !kernel->library)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_library)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_library = kernel->library;
    return CUDA_SUCCESS;
}

API(cuFuncGetModule, struct sim_module **ret_module, struct sim_function *function)
{
    ENTER(cuFuncGetModule);
    if (!IS(function, MAGIC_FUNCTION) || !function->module)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!ret_module)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_module = function->module;
    return CUDA_SUCCESS;
}
