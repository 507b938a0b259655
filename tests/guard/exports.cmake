# Memory that files hold (exports_test.c).

add_executable(exports_test exports_test.c exports_more.c)
target_link_libraries(exports_test PRIVATE attack)
set_target_properties(exports_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${out})

add_library(fakedma MODULE fakedma.c)
target_link_libraries(fakedma PRIVATE rmclient)
set_target_properties(rmclient PROPERTIES POSITION_INDEPENDENT_CODE ON)
set_target_properties(fakedma PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${out})

foreach(case simple sent importers forked replaced)
  guard_test(exports_${case} --mem 4G -- ${attack} 1G -- ${out}/exports_test ${case})
endforeach()
guard_test(exports_foreign --mem 4G -- env OVER=1 ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh 1G
  -- ${out}/exports_test foreign)
guard_test(exports_foreign_strict --mem 4G -- env OVER=1 ${CMAKE_CURRENT_SOURCE_DIR}/exports.sh 1G --guard=strict
  -- ${out}/exports_test foreign_strict)
guard_test(exports_cheat --mem 4G -- env OVER=1 DIFFER=1 ${attack} 1G -- ${out}/exports_test cheat)
guard_test(exports_cheat_strict --mem 4G -- env OVER=1 DIFFER=1 EXPECT=137 ${attack} 1G --guard=strict
  -- ${out}/exports_test cheat)
guard_test(exports_no_dmabuf --mem 4G -- ${attack} 1G -- ${out}/exports_test no_dmabuf)
guard_test(exports_no_dmabuf_550 --mem 4G --version 550.163.01 -- ${attack} 1G -- ${out}/exports_test no_dmabuf 2600)
guard_test(exports_dmabuf --mem 4G -- env LD_PRELOAD=${out}/fakedma.so ${attack} 1G -- ${out}/exports_test dmabuf)
