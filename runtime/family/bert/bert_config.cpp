#include "runtime/family/bert/bert_config.hpp"

#include "runtime/family/size_rules.hpp"

#include <fmt/format.h>

namespace troupe::runtime {
namespace {

double parameters_of(const bert_config& x) {
  const auto C = double(x.hidden), F = double(x.ffn);
  return C * (double(x.vocabulary) + double(x.positions) + double(x.types))
         + double(x.layers) * C * (4 * C + 2 * F);
}

}  // namespace

std::vector<std::string> validate(const bert_config& x) {
  std::vector<std::string> out;
  validate_masking(x.masking, out);
  validate_task(x.task, out);
  require_sizes({{"layers", x.layers, 1, largest_depth},
                 {"hidden", x.hidden},
                 {"heads", x.heads},
                 {"ffn", x.ffn},
                 {"sequence", x.sequence, 5},  // [CLS] A [SEP] B [SEP]
                 {"types", x.types, x.binary_head ? 2 : 0},
                 {"vocabulary", x.vocabulary, 4}},  // [CLS], [SEP], [MASK] and a token
                out);
  if (out.empty()) {
    require_multiple(x.hidden, x.heads, "", out);
    require_padding(x.vocabulary, x.padded_vocabulary, out);
    require_parameters(parameters_of(x), "layers", out);
  }
  require_positions(x.positions, x.sequence, out);
  require_numbers(x.norm_epsilon, "1e-5", x.init_std, x.hidden_dropout, x.attention_dropout, out);
  return out;
}

}  // namespace troupe::runtime
