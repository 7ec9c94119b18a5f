# The files of the run's page (runtime/watch/page/) with Chart.js, and of the chat page (runtime/watch/chat_page/), as
# sources that define troupe::runtime::page_files() and chat_page_files(). A change of a file makes its source again in
# the next build.
# Bytes of one line of the source; the literals of a file are joined.
set(bytes_of_line 4096)

if(CMAKE_SCRIPT_MODE_FILE)
  # cmake -D OUT=<source> -D FUNCTION=<name> -D "FILES=<path=file>;..." -P embedded_files.cmake
  set(type_html "text/html; charset=utf-8")
  set(type_css "text/css; charset=utf-8")
  set(type_js "text/javascript; charset=utf-8")
  math(EXPR digits "2 * ${bytes_of_line}")
  set(rows "")
  foreach(entry IN LISTS FILES)
    string(REGEX MATCH "^([^=]+)=(.+)$" found "${entry}")
    set(path ${CMAKE_MATCH_1})
    set(file ${CMAKE_MATCH_2})
    get_filename_component(ending ${file} LAST_EXT)
    string(SUBSTRING ${ending} 1 -1 ending)
    if(NOT DEFINED type_${ending})
      message(FATAL_ERROR "cannot embed '${file}': its type is unknown; add type_${ending} to ${CMAKE_SCRIPT_MODE_FILE}")
    endif()
    file(SHA256 ${file} hash)
    string(SUBSTRING ${hash} 0 32 hash)
    file(READ ${file} hex HEX)
    string(LENGTH "${hex}" length)
    math(EXPR size "${length} / 2")
    set(literals "")
    set(begin 0)
    while(begin LESS length)
      string(SUBSTRING "${hex}" ${begin} ${digits} line)
      string(REGEX REPLACE "(..)" "\\\\x\\1" line "${line}")
      string(APPEND literals "\n     \"${line}\"")
      math(EXPR begin "${begin} + ${digits}")
    endwhile()
    string(APPEND rows "    {\"${path}\", \"${type_${ending}}\", \"${hash}\",\n     {${literals},\n      ${size}}},\n")
  endforeach()
  file(WRITE ${OUT} "// Written by cmake/embedded_files.cmake.
#include \"runtime/watch/page_files.hpp\"

namespace troupe::runtime {

std::span<const page_file> ${FUNCTION}() {
  static constexpr page_file files[] = {
${rows}  };
  return files;
}

}  // namespace troupe::runtime
")
  return()
endif()

find_file(TROUPE_CHART_JS chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH
          DOC "Chart.js 3, which draws the curves of the run's page")
if(NOT TROUPE_CHART_JS)
  message(FATAL_ERROR "chart.min.js of Chart.js 3 is missing, which the run's page draws its curves with; install "
                      "Debian's package libjs-chart.js, or set TROUPE_CHART_JS to the file")
endif()
file(READ ${TROUPE_CHART_JS} beginning LIMIT 200)
if(NOT beginning MATCHES "Chart\\.js v3\\.")
  message(FATAL_ERROR "${TROUPE_CHART_JS} (TROUPE_CHART_JS) is not Chart.js 3, which the run's page is written for; "
                      "Debian 12's package libjs-chart.js has it")
endif()

# troupe_page_files(<variable> <folder> <function> [<path=file>...]): sets <variable> to the source. The caller's folder
# has the target that it is added to.
function(troupe_page_files variable folder function)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.html ${folder}/*.css ${folder}/*.js)
  set(entries ${ARGN})
  foreach(file ${files})
    get_filename_component(name ${file} NAME)
    if(name STREQUAL "index.html")
      list(APPEND entries "/=${file}")
    else()
      list(APPEND entries "/page/${name}=${file}")
    endif()
  endforeach()
  set(script ${PROJECT_SOURCE_DIR}/cmake/embedded_files.cmake)
  set(out ${PROJECT_BINARY_DIR}/${function}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -D OUT=${out} -D FUNCTION=${function} -D "FILES=${entries}" -P ${script}
    DEPENDS ${files} ${TROUPE_CHART_JS} ${script} COMMENT "" VERBATIM)
  set(${variable} ${out} PARENT_SCOPE)
endfunction()
