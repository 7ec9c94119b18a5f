// Collects the names of struct fields and checks their number against the fields.

#pragma once

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::tests {

class field_names {
 public:
  /// Adds the names of one struct; `of` is their prefix. Throws std::logic_error if the number of
  /// names differs from the number of fields.
  template <class... Field>
  void operator()(const std::string& of,
                  std::initializer_list<const char*> fields,
                  const Field&...) {
    if (fields.size() != sizeof...(Field))
      throw std::logic_error("the number of names differs from the number of fields of " + of);
    for (const auto* field : fields)
      all_.push_back(of + field);
  }

  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

}  // namespace troupe::tests
