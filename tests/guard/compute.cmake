# GPU time under the guard, by the fake driver's clock. These run alone: the guard needs processor time too.

foreach(what starts caps idle reset again subdevice hidden slice short)
  guard_test(compute_${what} --mem 4G -- ${CMAKE_CURRENT_SOURCE_DIR}/compute.sh ${what})
  set_tests_properties(guard.compute.${what} PROPERTIES RUN_SERIAL ON)
endforeach()
