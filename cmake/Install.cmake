# The program, and what it says about itself: manual page and completion come from its own tables.
include(GNUInstallDirs)
install(TARGETS k3bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

function(k3_install_made what folder file)
    install(CODE "
        set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${folder}\")
        file(MAKE_DIRECTORY \"\${folder}\")
        execute_process(COMMAND \"$<TARGET_FILE:k3bench>\" help ${what}
                        OUTPUT_FILE \"\${folder}/${file}\" COMMAND_ERROR_IS_FATAL ANY)
        message(STATUS \"Installing: \${folder}/${file}\")")
endfunction()

k3_install_made(man ${CMAKE_INSTALL_MANDIR}/man1 k3bench.1)
k3_install_made(bash ${CMAKE_INSTALL_DATADIR}/bash-completion/completions k3bench)
k3_install_made(zsh ${CMAKE_INSTALL_DATADIR}/zsh/site-functions _k3bench)
