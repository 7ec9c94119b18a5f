// The names of the fields of structs, counted against the fields.

#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::tests {

class field_names {
 public:
  /// Those of a struct: its fields follow, and every one needs a name. `of` stands before
  /// each name.
  template <class... Field>
  void operator()(const std::string& of,
                  std::initializer_list<const char*> fields,
                  const Field&...) {
    if (fields.size() != sizeof...(Field))
      throw std::logic_error("a name for each field of " + of);
    for (const auto* field : fields)
      all_.push_back(of + field);
  }

  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

}  // namespace troupe::tests
