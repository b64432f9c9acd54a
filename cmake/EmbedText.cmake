# k3_embed_text(TARGET SYMBOL FILE): FILE becomes `const char SYMBOL[]`, NUL-terminated, in TARGET.
function(k3_embed_text target symbol file)
    set(output ${CMAKE_BINARY_DIR}/embedded/${symbol}.c)
    add_custom_command(OUTPUT ${output}
        COMMAND ${CMAKE_COMMAND} -DSYMBOL=${symbol} -DFILE=${file} -DOUTPUT=${output} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
    target_sources(${target} PRIVATE ${output})
endfunction()
