#include "runtime/serving/refusal.hpp"

#include "runtime/core/json_text.hpp"

namespace troupe::runtime::serving {
namespace {

const char* type_of(int status) {
  if (status == 429)
    return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

nlohmann::ordered_json text_or_null(const std::string& x) {
  return x.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(x);
}

}  // namespace

std::string error_body(const refusal& why) {
  return json_text_replacing(nlohmann::ordered_json{{"error",
                                                     {{"message", why.what()},
                                                      {"type", type_of(why.status())},
                                                      {"param", text_or_null(why.field())},
                                                      {"code", text_or_null(why.code())}}}});
}

}  // namespace troupe::runtime::serving
