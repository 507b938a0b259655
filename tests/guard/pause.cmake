# Pausing instances, with the fake driver's book as the truth.

guard_test(pause --mem 4G -- ${CMAKE_CURRENT_SOURCE_DIR}/pause.sh)
