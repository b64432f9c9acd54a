add_library(k3_warnings INTERFACE)
target_compile_options(k3_warnings INTERFACE
    -Wall -Wextra -Wshadow -Wpointer-arith -Wcast-qual -Wstrict-prototypes -Wmissing-prototypes
    -Wvla -Wformat=2 -Wundef -Wno-missing-field-initializers)
if(K3BENCH_WERROR)
    target_compile_options(k3_warnings INTERFACE -Werror)
endif()

# Asan: address and undefined-behaviour sanitizers, with frames kept for readable traces.
set(CMAKE_C_FLAGS_ASAN "-O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined"
    CACHE STRING "" FORCE)
set(CMAKE_EXE_LINKER_FLAGS_ASAN "-fsanitize=address,undefined" CACHE STRING "" FORCE)
