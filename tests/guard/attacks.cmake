# Attacks from inside `vgpu run --guard`. The fake driver's book is the truth.
# With LONG=1 in the environment attack_churn makes a million rounds.

add_library(attack STATIC attack.c attack_around.c)
target_link_libraries(attack PUBLIC rmclient vgpu_base Threads::Threads)

# guard_attack(SUBJECT): attack_SUBJECT.c
function(guard_attack subject)
  add_executable(attack_${subject} attack_${subject}.c)
  target_link_libraries(attack_${subject} PRIVATE attack)
  set_target_properties(attack_${subject} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${out})
endfunction()

set(attack ${CMAKE_CURRENT_SOURCE_DIR}/attack.sh)

guard_attack(quota)
guard_test(quota_all_ways --mem 4G -- ${attack} 1G -- ${out}/attack_quota)
guard_test(quota_huge --mem 4G --huge -- ${attack} 1G -- ${out}/attack_quota default)

guard_attack(race)
guard_test(race_threads --gpus 2 --mem 4G -- ${attack} 1G -- ${out}/attack_race 100000)
guard_test(race_mapped --gpus 2 --mem 4G -- env VGPU_GUARD_MAP=supervisor ${attack} 1G -- ${out}/attack_race 20000 mapped)

guard_attack(pages)
guard_test(pages_of_every_kind --mem 4G -- ${attack} 1G -- ${out}/attack_pages 2000)

guard_attack(stall)
foreach(what resolve kill end)
  guard_test(stall_${what} --mem 4G -- ${attack} 1G -- ${out}/attack_stall ${what})
endforeach()
foreach(what audit lent maps)
  guard_test(stall_${what} --mem 4G -- env OVER=1 DIFFER=1 EXPECT=137
    ${attack} 1G --guard=strict -- ${out}/attack_stall ${what})
endforeach()
set_tests_properties(guard.stall.maps PROPERTIES RUN_SERIAL ON) # it keeps other starts waiting

guard_attack(continued)
foreach(what root behind)
  guard_test(continued_${what} --mem 4G -- env OVER=1 DIFFER=1 ${attack} 1G -- ${out}/attack_continued ${what})
  guard_test(continued_${what}_strict --mem 4G -- env OVER=1 DIFFER=1 EXPECT=137
    ${attack} 1G --guard=strict -- ${out}/attack_continued ${what})
endforeach()

guard_attack(signals)
guard_test(signals_while_calls_wait --mem 4G -- ${attack} 1G -- ${out}/attack_signals 9000 50)

guard_attack(refs)
guard_test(refs_some_orders --mem 4G -- ${attack} 1G -- ${out}/attack_refs 5)
guard_test(refs_every_order --mem 4G -- ${attack} 1G -- ${out}/attack_refs)
guard_test(refs_mapped --mem 4G -- env VGPU_GUARD_MAP=supervisor ${attack} 1G --guard=strict -- ${out}/attack_refs)

guard_attack(uvm)
guard_test(uvm_550 --gpus 2 --mem 4G --version 550.163.01 -- ${attack} 1G -- ${out}/attack_uvm)
guard_test(uvm_580 --gpus 2 --mem 4G --version 580.126.20 -- ${attack} 1G -- ${out}/attack_uvm)
guard_test(uvm_mapped --gpus 2 --mem 4G -- env VGPU_GUARD_MAP=supervisor ${attack} 1G --guard=strict -- ${out}/attack_uvm)
guard_test(uvm_595 --gpus 2 --mem 4G --version 595.45.04 -- ${attack} 1G -- ${out}/attack_uvm no-length)

guard_attack(cross)
guard_test(cross_processes --mem 4G -- ${attack} 1G -- ${out}/attack_cross)
guard_test(cross_mapped --mem 4G -- env VGPU_GUARD_MAP=supervisor ${attack} 1G -- ${out}/attack_cross)

guard_attack(hold)
foreach(way flight uvm_flight mapping control_mapping thread leader ring process)
  guard_test(hold_${way} --mem 4G -- ${attack} 1G -- ${out}/attack_hold ${way})
endforeach()

guard_attack(files)
guard_test(files_kept_and_lost --mem 4G -- ${attack} 1G -- ${out}/attack_files)

guard_attack(kill)
guard_test(kill_anywhere --mem 4G -- ${attack} 1G -- ${out}/attack_kill 200)

guard_attack(supervisor)
guard_test(supervisor_killed --mem 4G -- ${out}/attack_supervisor 30)

guard_attack(abi)
guard_test(abi_other_calls --mem 4G -- ${attack} 1G -- ${out}/attack_abi)

guard_attack(cards)
guard_test(cards_open --gpus 2 --mem 4G -- ${attack} 1G -- ${out}/attack_cards)

guard_attack(many)
guard_test(many_processes --mem 4G -- ${attack} 1G -- ${out}/attack_many 100)
guard_test(many_instances --mem 4G -- env INSTANCES=20 ${attack} 100M -- ${out}/attack_many 4)

guard_attack(churn)
guard_test(churn_long_life --mem 4G -- ${attack} 1G -- ${out}/attack_churn 10000 1000000)
set_tests_properties(guard.churn.long_life PROPERTIES TIMEOUT 1800) # with LONG=1

guard_attack(managed)
guard_test(managed_mappings --mem 4G -- ${attack} 1G -- ${out}/attack_managed)
foreach(what swapped grown)
  guard_test(managed_${what} --mem 4G -- env DIFFER=1 ${attack} 1G -- ${out}/attack_managed ${what})
endforeach()

guard_attack(view)
guard_test(view_quota --mem 4G -- ${attack} 1G -- ${out}/attack_view)
guard_test(view_no_quota --mem 4G -- ${attack} 0 -- ${out}/attack_view)

add_executable(rmtest_static rmtest.c)
target_link_libraries(rmtest_static PRIVATE rmclient vgpu_base)
target_link_options(rmtest_static PRIVATE -static)
set_target_properties(rmtest_static PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${out})
guard_test(programs_of_all_kinds --mem 4G -- ${CMAKE_CURRENT_SOURCE_DIR}/attack_programs.sh)

guard_attack(reach)
guard_test(reach_supervisor --mem 4G -- ${attack} 1G -- ${out}/attack_reach)

guard_attack(limits)
guard_test(limits_reached --mem 4G -- ${attack} 1G -- ${out}/attack_limits)
guard_test(limits_few --mem 4G -- prlimit --nofile=256 ${attack} 1G -- ${out}/attack_limits)

guard_attack(fabric)
guard_test(fabric_address --mem 4G -- ${attack} 1G --guard=strict -- ${out}/attack_fabric)

guard_attack(leader)
guard_test(leader_maps --mem 4G -- ${attack} 1G --guard=strict -- ${out}/attack_leader maps 3)
foreach(what works opens unshares)
  guard_test(leader_${what} --mem 4G -- ${attack} 1G --guard=strict --cores 50 -- ${out}/attack_leader ${what})
endforeach()

guard_attack(kept)
foreach(what exec first)
  guard_test(kept_${what} --mem 4G -- ${attack} 1G --guard=strict -- ${out}/attack_kept ${what} 2)
endforeach()

guard_attack(region)
guard_test(region_slices --mem 4G -- ${attack} 1G -- ${out}/attack_region vdevs)
guard_test(region_card --gpus 2 --mem 4G -- ${attack} 1G --guard=strict --gpu 0 -- ${out}/attack_region card)
guard_test(region_cap --mem 4G -- ${attack} 1G --guard=strict --cores 10 -- ${out}/attack_region cap)
guard_test(region_numbers --gpus 2 --mem 4G -- ${attack} 0 --guard=strict --mem 0:1G,1:2G -- ${out}/attack_region numbers)
foreach(what truncated arena)
  guard_test(region_${what} --mem 4G -- ${attack} 1G --guard=strict --cores 10 -- ${out}/attack_region ${what})
endforeach()

guard_attack(left)
foreach(what files mapping)
  guard_test(left_${what} --mem 4G -- ${attack} 1G -- ${out}/attack_left ${what})
endforeach()

guard_attack(maker)
guard_test(maker_ended --mem 4G -- env OVER=1 DIFFER=1 EXPECT=137 ${attack} 1G --guard=strict -- ${out}/attack_maker)

guard_attack(class)
guard_test(class_capped --mem 4G -- ${attack} 1G --guard --cores 10 -- ${out}/attack_class)

guard_attack(starve)
guard_test(starve_threads --mem 4G -- ${attack} 1G --guard --cores 10 -- ${out}/attack_starve threads)
guard_test(starve_files --mem 4G -- env OVER=1 DIFFER=1 EXPECT=137
  ${attack} 1G --guard=strict -- ${out}/attack_starve files)

add_library(othernvml SHARED othernvml.c)
set_target_properties(othernvml PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY ${out}/other)
guard_test(nvml_chosen --mem 4G -- ${CMAKE_CURRENT_SOURCE_DIR}/nvml.sh)
