#include "runtime/core/error.hpp"

#include <system_error>

namespace troupe::runtime {

std::string system_message(int error_number) {
  return std::generic_category().message(error_number);
}

}  // namespace troupe::runtime
