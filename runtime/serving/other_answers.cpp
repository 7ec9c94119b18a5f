#include "runtime/serving/other_answers.hpp"

#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <cstring>

namespace troupe::runtime::serving {

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view alphabet
      = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto count = std::min<std::size_t>(bytes.size() - i, 3);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < count ? std::uint32_t(static_cast<unsigned char>(bytes[i + k])) : 0);
    for (std::size_t k = 0; k < 4; ++k)
      out += k <= count ? alphabet[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::string embedding_answer(const std::string& model,
                             std::string_view vectors,
                             std::int64_t width,
                             std::int64_t tokens,
                             bool base64) {
  json out{{"object", "list"}, {"data", json::array()}, {"model", model}};
  const auto bytes = std::size_t(width) * sizeof(float);
  for (std::size_t i = 0; i * bytes < vectors.size(); ++i) {
    const auto own = vectors.substr(i * bytes, bytes);
    json values = json::array();
    for (std::size_t c = 0; !base64 && c < std::size_t(width); ++c) {
      float value = 0;
      std::memcpy(&value, own.data() + c * sizeof(float), sizeof(float));
      values.push_back(value);
    }
    out["data"].push_back({{"object", "embedding"},
                           {"index", i},
                           {"embedding", base64 ? json(base64_of(own)) : std::move(values)}});
  }
  out["usage"] = {{"prompt_tokens", tokens}, {"total_tokens", tokens}};
  return json_text(out);
}

std::string models_answer(const served_facts& facts, std::int64_t started, bool one) {
  const json model{{"id", facts.model},
                   {"object", "model"},
                   {"created", started},
                   {"owned_by", "troupe"},
                   {"max_model_len", facts.context}};
  return json_text_replacing(one ? model
                                 : json{{"object", "list"}, {"data", json::array({model})}});
}

std::string tokenize_answer(std::string_view body, const served_model& model, std::time_t now) {
  const auto asked = tokenize_in(body, model.facts());
  const auto ids = asked.conversation ? model.prompts_of(*asked.conversation, now).front()
                                      : model.ids_of(asked.prompt, asked.special_tokens);
  return json_text(
      json{{"count", ids.size()}, {"max_model_len", model.facts().context}, {"tokens", ids}});
}

std::string detokenize_answer(std::string_view body, const served_model& model) {
  return json_text_replacing(
      json{{"prompt", model.text().decode(detokenize_in(body, model.facts()))}});
}

}  // namespace troupe::runtime::serving
