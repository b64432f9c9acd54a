# Devices. K3BENCH_CUDA and K3BENCH_HIP: on, off, or auto, which is on where the compiler and the driver of a
# device are both here: the kernels take minutes to compile, for nothing where nothing can run them.
set(K3BENCH_CUDA auto CACHE STRING "--device cuda: auto, on, off")
set(K3BENCH_HIP auto CACHE STRING "--device hip: auto, on, off")
set(K3BENCH_CUDA_ARCHITECTURES "90a,100a,103a" CACHE STRING "of H200, B200 and B300; with commas")
set(K3BENCH_HIP_ARCHITECTURES "gfx90a" CACHE STRING "gfx942 and gfx950 where the ROCm knows them; with commas")
set_property(CACHE K3BENCH_CUDA PROPERTY STRINGS auto on off)
set_property(CACHE K3BENCH_HIP PROPERTY STRINGS auto on off)

find_program(K3_NVCC nvcc HINTS ENV CUDA_PATH PATHS /usr/local/cuda/bin)
find_program(K3_HIPCC hipcc HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES bin)
mark_as_advanced(K3_NVCC K3_HIPCC)

# k3_device_choice(DIALECT WANTED COMPILER DRIVER HOW RESULT): says what was found and decides.
function(k3_device_choice dialect wanted compiler driver how result)
    set(built OFF)
    if(NOT wanted MATCHES "^(auto|on|off)$")
        message(FATAL_ERROR "K3BENCH_${dialect} is ${wanted}: auto, on or off")
    elseif(wanted STREQUAL "off")
        message(STATUS "${dialect}: off, as asked")
    elseif(NOT compiler)
        if(wanted STREQUAL "on")
            message(FATAL_ERROR "K3BENCH_${dialect} is on and there is no compiler for it; ${how}\n")
        endif()
        message(STATUS "${dialect}: off, no compiler here (${how})")
    elseif(wanted STREQUAL "auto" AND NOT EXISTS ${driver})
        message(STATUS "${dialect}: off, ${compiler} is here but no driver (${driver}); -DK3BENCH_${dialect}=on builds it")
    else()
        message(STATUS "${dialect}: on, by ${compiler}")
        set(built ON)
    endif()
    set(${result} ${built} PARENT_SCOPE)
endfunction()

# The runtime and the library of matrix products of a dialect (one file for both) and the kernels, into the program's library.
function(k3_device_dialect dialect definition object include library)
    add_library(k3_${dialect} STATIC ${CMAKE_SOURCE_DIR}/harness/device/gpu/runtime.c
                ${CMAKE_SOURCE_DIR}/kernels/gpu/blas.cpp ${object})
    target_include_directories(k3_${dialect} PRIVATE ${CMAKE_SOURCE_DIR})
    target_include_directories(k3_${dialect} SYSTEM PRIVATE ${include})
    target_compile_definitions(k3_${dialect} PRIVATE K3_RUNTIME_${definition})
    set_target_properties(k3_${dialect} PROPERTIES LINKER_LANGUAGE C CXX_STANDARD 17)
    target_link_libraries(k3_${dialect} PUBLIC k3_device PRIVATE ${library} stdc++ ${CMAKE_DL_LIBS} rt Threads::Threads)
    target_link_libraries(k3_bench PUBLIC k3_${dialect})
    set_property(SOURCE bench/commands/accelerators.c bench/commands/version.c APPEND PROPERTY
                 COMPILE_DEFINITIONS K3BENCH_${definition}="${K3BENCH_${definition}_ARCHITECTURES}")
endfunction()

file(GLOB k3_gpu_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/kernels/gpu/*)

k3_device_choice(CUDA "${K3BENCH_CUDA}" "${K3_NVCC}" /dev/nvidiactl "install CUDA 13" k3_cuda)
if(k3_cuda)
    enable_language(CXX)
    get_filename_component(k3_cuda_root ${K3_NVCC} DIRECTORY)
    get_filename_component(k3_cuda_root ${k3_cuda_root} DIRECTORY)
    find_library(K3_CUDART cudart_static PATHS ${k3_cuda_root}/lib64 REQUIRED)
    set(k3_cuda_codes)
    string(REPLACE "," ";" architectures "${K3BENCH_CUDA_ARCHITECTURES}")
    foreach(architecture ${architectures})
        list(APPEND k3_cuda_codes -gencode arch=compute_${architecture},code=sm_${architecture})
    endforeach()
    set(k3_cuda_object ${CMAKE_BINARY_DIR}/kernels_cuda.o)
    add_custom_command(OUTPUT ${k3_cuda_object}
        COMMAND ${K3_NVCC} -std=c++17 -O3 --fmad=false --threads 0 ${k3_cuda_codes} -I ${CMAKE_SOURCE_DIR}
                -Xcompiler -fPIE -c ${CMAKE_SOURCE_DIR}/kernels/gpu/kernels.cu -o ${k3_cuda_object}
        DEPENDS ${k3_gpu_sources} COMMENT "CUDA kernels for ${K3BENCH_CUDA_ARCHITECTURES}" VERBATIM)
    k3_device_dialect(cuda CUDA ${k3_cuda_object} ${k3_cuda_root}/include ${K3_CUDART})
endif()

k3_device_choice(HIP "${K3BENCH_HIP}" "${K3_HIPCC}" /dev/kfd "apt-get install hipcc" k3_hip)
if(k3_hip)
    enable_language(CXX)
    find_library(K3_HIP_RUNTIME amdhip64 HINTS ENV ROCM_PATH PATHS /opt/rocm
                 PATH_SUFFIXES lib lib/${CMAKE_LIBRARY_ARCHITECTURE} REQUIRED)
    find_path(K3_HIP_INCLUDE hip/hip_runtime_api.h HINTS ENV ROCM_PATH PATHS /opt/rocm PATH_SUFFIXES include REQUIRED)
    set(k3_hip_codes)
    string(REPLACE "," ";" architectures "${K3BENCH_HIP_ARCHITECTURES}")
    foreach(architecture ${architectures})
        list(APPEND k3_hip_codes --offload-arch=${architecture})
    endforeach()
    set(k3_hip_object ${CMAKE_BINARY_DIR}/kernels_hip.o)
    add_custom_command(OUTPUT ${k3_hip_object}
        COMMAND ${K3_HIPCC} -x hip -std=c++17 -O3 -ffp-contract=off -fPIE ${k3_hip_codes} -I ${CMAKE_SOURCE_DIR}
                -c ${CMAKE_SOURCE_DIR}/kernels/gpu/kernels.cu -o ${k3_hip_object}
        DEPENDS ${k3_gpu_sources} COMMENT "HIP kernels for ${K3BENCH_HIP_ARCHITECTURES}" VERBATIM)
    k3_device_dialect(hip HIP ${k3_hip_object} ${K3_HIP_INCLUDE} ${K3_HIP_RUNTIME})
endif()
