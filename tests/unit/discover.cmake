# Writes OUTPUT, in which ctest reads the tests of SUBJECT: one for each that PROGRAM lists.
execute_process(COMMAND ${PROGRAM} --list OUTPUT_VARIABLE lines OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(text "")
string(REPLACE "\n" ";" lines "${lines}")
foreach(line ${lines})
  string(REPLACE " " ";" labels "${line}")
  list(POP_FRONT labels name)
  string(APPEND text "add_test(unit.${SUBJECT}.${name} ${PROGRAM} ${name})
set_tests_properties(unit.${SUBJECT}.${name} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS \"unit;${labels}\" ENVIRONMENT
  \"TSAN_OPTIONS=die_after_fork=0 halt_on_error=1;UBSAN_OPTIONS=halt_on_error=1\")
")
endforeach()
file(WRITE ${OUTPUT} "${text}")
