// Readers of JSON members that other programs wrote: files of a run's folder, agent messages.

#pragma once

#include "runtime/process/process_end.hpp"
#include "runtime/process/process_id.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Parses an object. `what` begins the error message. Throws input_error when the text is not a
/// JSON object or nested too deep.
nlohmann::json read_object(std::string_view text, const std::string& what);

/// Read one member. They throw input_error, with `what` and the name, when the member is missing,
/// of the wrong type or out of range.
std::string text_field(const nlohmann::json& of, const char* name, const std::string& what);
std::int64_t whole_field(const nlohmann::json& of,
                         const char* name,
                         const std::string& what,
                         std::int64_t least,
                         std::int64_t most = INT64_MAX);
double number_field(
    const nlohmann::json& of, const char* name, const std::string& what, double above, double most);
bool flag_field(const nlohmann::json& of, const char* name, const std::string& what);
std::vector<std::string> texts_field(const nlohmann::json& of,
                                     const char* name,
                                     const std::string& what);
/// Like text_field, for a value of text_or_bytes.
std::string word_field(const nlohmann::json& of, const char* name, const std::string& what);
std::vector<std::string> words_field(const nlohmann::json& of,
                                     const char* name,
                                     const std::string& what);
const nlohmann::json& object_field(const nlohmann::json& of,
                                   const char* name,
                                   const std::string& what);
const nlohmann::json& list_field(const nlohmann::json& of,
                                 const char* name,
                                 const std::string& what);

/// Adds {"pid": 12, "start_time": 3456}.
void put(nlohmann::json& to, const process_id& x);
process_id process_field(const nlohmann::json& of, const std::string& what);

/// {"exit_code": 0}, {"signal": 9, "core": false, "out_of_memory": false}, or {"unseen": true}.
nlohmann::json json_of(const process_end& x);
process_end read_process_end(const nlohmann::json& x, const std::string& what);

/// The value as JSON text. Throws input_error for strings that are not UTF-8.
std::string text_of_json(const nlohmann::json& x, const std::string& what);

}  // namespace troupe::runtime
