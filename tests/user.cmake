# User tests: the examples, the README's commands, the installed library.

troupe_test_room(examples)
get_property(stories GLOBAL PROPERTY TROUPE_STORIES)
foreach(story ${stories})
  troupe_script_test(examples/${story} examples/story.py $<TARGET_FILE:story_${story}>
                     ${PROJECT_SOURCE_DIR}/examples/${story}.cpp NEEDS story_${story})
endforeach()
foreach(story 11_two_hosts 12_kill_9)
  troupe_script_test(examples/${story} examples/story.py $<TARGET_FILE:troupe>
                     ${PROJECT_SOURCE_DIR}/examples/${story}.sh NEEDS troupe UNSANITIZED)
endforeach()
foreach(story 14_experts 15_fine_tuning 16_reversing)
  troupe_script_test(examples/${story} examples/story.py $<TARGET_FILE:troupe>
                     ${PROJECT_SOURCE_DIR}/examples/${story}.sh 900 NEEDS troupe UNSANITIZED TIMEOUT 930)
endforeach()
if(TARGET story_05_monitor)  # not in sanitizer builds, which intercept system calls
  troupe_script_test(examples/refused_threads examples/refused_threads_test.py
                     $<TARGET_FILE:story_05_monitor> $<TARGET_FILE:troupe_thread_faults>
                     NEEDS story_05_monitor troupe_thread_faults)
endif()
if(TEST examples/11_two_hosts)  # skipped without permission to create namespaces
  set_tests_properties(examples/11_two_hosts PROPERTIES SKIP_RETURN_CODE 77)
endif()

troupe_script_test(examples/quickstart examples/quickstart_test.py ${PROJECT_SOURCE_DIR} UNSANITIZED)
troupe_script_test(examples/best_checkpoint examples/best_checkpoint_test.py ${PROJECT_SOURCE_DIR} UNSANITIZED)
troupe_script_test(examples/monitoring examples/monitoring_test.py ${PROJECT_SOURCE_DIR} UNSANITIZED)
troupe_script_test(readme/commands readme/readme_test.py
                   $<TARGET_FILE:troupe> ${PROJECT_SOURCE_DIR}/docs/guides/first_run.md NEEDS troupe UNSANITIZED)
troupe_script_test(readme/shown readme/readme_test.py
                   $<TARGET_FILE:troupe> --shown ${PROJECT_SOURCE_DIR} NEEDS troupe UNSANITIZED)

troupe_script_test(package/install package/install_test.py
                   ${CMAKE_COMMAND} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
                   ${CMAKE_CXX_COMPILER} "--flags=${CMAKE_CXX_FLAGS}"
                   NEEDS all_installed TIMEOUT 600 UNSANITIZED)
