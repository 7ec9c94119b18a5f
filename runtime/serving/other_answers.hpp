// Answers of the API without generated texts.

#pragma once

#include "runtime/serving/served_model.hpp"

#include <ctime>
#include <string>
#include <string_view>

namespace troupe::runtime::serving {

/// `vectors`: little-endian f32, (texts, width). `tokens`: that were read.
std::string embedding_answer(const std::string& model,
                             std::string_view vectors,
                             std::int64_t width,
                             std::int64_t tokens,
                             bool base64);
/// The list of models, or with `one` the only entry itself. `started`: seconds since 1970.
std::string models_answer(const served_facts& facts, std::int64_t started, bool one);
/// Both throw `refusal`. `now`: for templates with a date.
std::string tokenize_answer(std::string_view body, const served_model& model, std::time_t now);
std::string detokenize_answer(std::string_view body, const served_model& model);

/// RFC 4648, section 4.
std::string base64_of(std::string_view bytes);

}  // namespace troupe::runtime::serving
