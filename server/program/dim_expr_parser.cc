#include "program/dim_expr_parser.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "program/limits.h"

namespace stoker {
namespace {

using Kind = DimExpr::Kind;

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

constexpr std::string_view kPrefix = "Symbol('";

struct Term {
  DimExpr expr;
  int nodes;
};

// nullopt: not understood; the whole expression is unknown then.
std::optional<Term> Combine(Kind kind, const Term& left, const Term& right) {
  const int nodes = left.nodes + right.nodes + 1;
  if (nodes > kMaxExpressionNodes) return std::nullopt;
  return Term{DimExpr::Binary(kind, left.expr, right.expr), nodes};
}

std::optional<Term> Fold(Kind kind, const std::vector<Term>& terms) {
  if (terms.empty()) return std::nullopt;
  std::optional<Term> result = terms[0];
  for (size_t i = 1; result && i < terms.size(); ++i) {
    result = Combine(kind, *result, terms[i]);
  }
  return result;
}

std::optional<Term> Power(const std::vector<Term>& terms) {
  if (terms.size() != 2 || !terms[1].expr.is_constant()) return std::nullopt;
  const int64_t exponent = terms[1].expr.constant();
  if (exponent < 1 || exponent > kMaxExponent) return std::nullopt;
  return Fold(Kind::kMul, std::vector<Term>(exponent, terms[0]));
}

// ceil(a / b) = -floor(-a / b)
std::optional<Term> CeilDiv(const std::vector<Term>& terms) {
  if (terms.size() != 2) return std::nullopt;
  const Term minus_one{DimExpr::Constant(-1), 1};
  const std::optional<Term> negated = Combine(Kind::kMul, minus_one, terms[0]);
  if (!negated) return std::nullopt;
  const std::optional<Term> floor =
      Combine(Kind::kFloorDiv, *negated, terms[1]);
  if (!floor) return std::nullopt;
  return Combine(Kind::kMul, minus_one, *floor);
}

// ModularIndexing(a, b, c) = a // b % c
std::optional<Term> ModularIndexing(const std::vector<Term>& terms) {
  if (terms.size() != 3) return std::nullopt;
  const std::optional<Term> quotient =
      Combine(Kind::kFloorDiv, terms[0], terms[1]);
  if (!quotient) return std::nullopt;
  return Combine(Kind::kMod, *quotient, terms[2]);
}

std::optional<Term> Apply(std::string_view function,
                          const std::vector<Term>& terms) {
  if (function == "Add") return Fold(Kind::kAdd, terms);
  if (function == "Mul") return Fold(Kind::kMul, terms);
  if (function == "Pow") return Power(terms);
  if (function == "CeilDiv") return CeilDiv(terms);
  if (function == "ModularIndexing") return ModularIndexing(terms);
  if (terms.size() != 2) return std::nullopt;
  if (function == "FloorDiv" || function == "CleanDiv") {
    return Combine(Kind::kFloorDiv, terms[0], terms[1]);
  }
  if (function == "Mod" || function == "PythonMod") {
    return Combine(Kind::kMod, terms[0], terms[1]);
  }
  return std::nullopt;
}

class Parser {
 public:
  Parser(std::string_view text,
         const std::map<std::string, int, std::less<>>& dimensions)
      : rest_(text), dimensions_(dimensions) {}

  std::optional<Term> ParseAll() {
    std::optional<Term> term = ParseTerm(0);
    SkipSpace();
    return rest_.empty() ? term : std::nullopt;
  }

 private:
  std::optional<Term> ParseTerm(int depth) {
    if (depth > kMaxExpressionDepth) return std::nullopt;
    const std::string_view function = ReadWord();
    if (function.empty() || !Consume("(")) return std::nullopt;
    if (function == "Symbol") return ParseSymbol();
    if (function == "Integer") return ParseInteger();
    std::vector<Term> terms;
    do {
      std::optional<Term> term = ParseTerm(depth + 1);
      if (!term || terms.size() >= kMaxExpressionNodes) return std::nullopt;
      terms.push_back(*std::move(term));
    } while (Consume(","));
    if (!Consume(")")) return std::nullopt;
    return Apply(function, terms);
  }

  std::optional<Term> ParseSymbol() {
    if (!Consume("'")) return std::nullopt;
    const std::string_view name = ReadWord();
    if (!Consume("'")) return std::nullopt;
    while (Consume(",")) {  // assumptions: positive=True
      if (ReadWord().empty() || !Consume("=") || ReadWord().empty()) {
        return std::nullopt;
      }
    }
    if (!Consume(")")) return std::nullopt;
    const auto it = dimensions_.find(name);
    if (it == dimensions_.end()) return std::nullopt;
    return Term{DimExpr::Dimension(it->second), 1};
  }

  std::optional<Term> ParseInteger() {
    int64_t value = 0;
    const auto [end, error] =
        std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(end - rest_.data());
    if (!Consume(")")) return std::nullopt;
    return Term{DimExpr::Constant(value), 1};
  }

  std::string_view ReadWord() {
    SkipSpace();
    size_t length = 0;
    while (length < rest_.size() && IsWordCharacter(rest_[length])) ++length;
    const std::string_view word = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return word;
  }

  bool Consume(std::string_view token) {
    SkipSpace();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void SkipSpace() {
    rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
  }

  std::string_view rest_;
  const std::map<std::string, int, std::less<>>& dimensions_;
};

}  // namespace

DimExpr ParseDimExpr(
    std::string_view text,
    const std::map<std::string, int, std::less<>>& dimensions) {
  if (text.size() > kMaxExpressionBytes) return DimExpr::Unknown();
  const std::optional<Term> term = Parser(text, dimensions).ParseAll();
  return term ? term->expr : DimExpr::Unknown();
}

std::string_view SymbolName(std::string_view text) {
  if (!text.starts_with(kPrefix)) return {};
  text.remove_prefix(kPrefix.size());
  const size_t end = text.find('\'');
  const bool is_whole = end != text.npos && text.find('(') == text.npos &&
                        text.find(')') == text.size() - 1;
  return is_whole ? text.substr(0, end) : std::string_view();
}

std::string_view OnlySymbol(std::string_view text) {
  std::string_view found;
  for (size_t at = text.find(kPrefix); at != text.npos;
       at = text.find(kPrefix)) {
    text.remove_prefix(at + kPrefix.size());
    const std::string_view name = text.substr(0, text.find('\''));
    if (!found.empty() && found != name) return {};
    found = name;
  }
  return found;
}

}  // namespace stoker
