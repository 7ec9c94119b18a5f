# What a user does: stories, README's commands, the installed library.

get_property(stories GLOBAL PROPERTY TROUPE_STORIES)
foreach(story ${stories})
  add_test(NAME examples/${story}
           COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/examples/story.py
                   $<TARGET_FILE:story_${story}> ${PROJECT_SOURCE_DIR}/examples/${story}.cpp)
  set_tests_properties(examples/${story} PROPERTIES TIMEOUT 120 LABELS examples)
endforeach()
add_custom_target(tests_examples)
list(TRANSFORM stories PREPEND story_)
add_dependencies(tests_examples ${stories})

add_test(NAME readme/commands
         COMMAND Python3::Interpreter ${CMAKE_CURRENT_SOURCE_DIR}/readme/readme_test.py
                 $<TARGET_FILE:troupe> ${PROJECT_SOURCE_DIR}/README.md)
set_tests_properties(readme/commands PROPERTIES TIMEOUT 300 LABELS readme)
add_custom_target(tests_readme DEPENDS troupe)

set(flags "${CMAKE_CXX_FLAGS}")
if(TROUPE_SANITIZE)
  string(APPEND flags " -fsanitize=${TROUPE_SANITIZE} -fno-sanitize=null,vptr -fno-sanitize-recover=all")
endif()
add_test(NAME package/install
         COMMAND Python3::Interpreter -B ${CMAKE_CURRENT_SOURCE_DIR}/package/install_test.py
                 ${CMAKE_COMMAND} ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}
                 ${CMAKE_CXX_COMPILER} "${flags}")
set_tests_properties(package/install PROPERTIES TIMEOUT 600 LABELS package)
add_custom_target(tests_package DEPENDS all_installed)
