// Errors of OpenAI's API: a status and a JSON body that its clients read.

#pragma once

#include "runtime/core/error.hpp"

#include <string>

namespace troupe::runtime::serving {

/// A request that is not carried out.
class refusal : public input_error {
 public:
  refusal(int status, const std::string& message, std::string field = {}, std::string code = {})
      : input_error("{}", message),
        status_(status),
        field_(std::move(field)),
        code_(std::move(code)) {}

  int status() const { return status_; }
  const std::string& field() const { return field_; }  ///< of the request; may be empty
  const std::string& code() const { return code_; }    ///< for programs; may be empty

 private:
  int status_;
  std::string field_, code_;
};

/// {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}
std::string error_body(const refusal& why);

}  // namespace troupe::runtime::serving
