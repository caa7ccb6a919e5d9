//! What can be found wrong with an expression before it is evaluated.

use cel::Program;
use cel::common::ast::{EntryExpr, Expr, IdedExpr, operators};

use super::ExpressionError;

/// How deep loops over lists may be nested, since each level multiplies the work.
const LOOPS_MAX: usize = 3;

/// The functions that expressions may call, besides operators.
pub(super) const FUNCTIONS: &[&str] = &[
    // Of values.
    "bool",
    "bytes",
    "double",
    "duration",
    "dyn",
    "int",
    "size",
    "string",
    "timestamp",
    "type",
    "uint",
    // Of texts.
    "charAt",
    "contains",
    "endsWith",
    "format",
    "indexOf",
    "join",
    "lastIndexOf",
    "lower",
    "lowerAscii",
    "matches",
    "quote",
    "replace",
    "reverse",
    "split",
    "startsWith",
    "substring",
    "trim",
    "upper",
    "upperAscii",
    "words",
    // Of lists.
    "distinct",
    "first",
    "flatten",
    "last",
    "slice",
    "sort",
    "sortByAssociatedKeys",
    "@sortByAssociatedKeys",
    // Of numbers.
    "abs",
    "bitAnd",
    "bitNot",
    "bitOr",
    "bitShiftLeft",
    "bitShiftRight",
    "bitXor",
    "ceil",
    "floor",
    "greatest",
    "isFinite",
    "isInf",
    "isNaN",
    "least",
    "round",
    "sign",
    "sqrt",
    "trunc",
    "math.@max",
    "math.@min",
    "@max",
    "@min",
    "min",
    "max",
    // Of times.
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    // Of what may not be there.
    "hasValue",
    "none",
    "of",
    "ofNonZeroValue",
    "optFlatMap",
    "optMap",
    "or",
    "orValue",
    "value",
];

/// What stands before the dot of some functions.
const NAMESPACES: &[&str] = &["lists", "math", "optional", "strings"];

/// Types can be compared with, as in `type(event) == string`.
const TYPES: &[&str] = &[
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// Fails if the expression names what is not there, or could take too long.
pub(super) fn check(
    text: &str,
    program: &Program,
    variables: &[&'static str],
) -> Result<(), ExpressionError> {
    let mut checker = Checker {
        known: variables.to_vec(),
        loops: 0,
    };
    checker.check(program.expression()).map_err(|(id, reason)| {
        let offset = program
            .source_info()
            .offset_for(id)
            .map_or(0, |(start, _)| start as usize);
        let (line, column) = position(text, offset);
        ExpressionError::Syntax {
            text: text.to_owned(),
            line,
            column,
            reason,
        }
    })
}

/// Line and column, from one on, of the character after so many.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before: String = text.chars().take(offset).collect();
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |rest| rest.chars().count())
        + 1;
    (line, column)
}

struct Checker<'e> {
    known: Vec<&'e str>,
    loops: usize,
}

type Wrong = (u64, String);

impl<'e> Checker<'e> {
    fn check(&mut self, expression: &'e IdedExpr) -> Result<(), Wrong> {
        let id = expression.id;
        match &expression.expr {
            Expr::Unspecified | Expr::Literal(_) => Ok(()),
            Expr::Ident(name) => self.check_variable(id, name),
            Expr::Select(select) => self.check(&select.operand),
            Expr::List(list) => list
                .elements
                .iter()
                .try_for_each(|element| self.check(element)),
            Expr::Map(map) => map
                .entries
                .iter()
                .try_for_each(|entry| self.check_entry(&entry.expr)),
            Expr::Struct(of) => Err((id, format!("there is no type {}", of.type_name))),
            Expr::Call(call) => {
                check_function(id, &call.func_name)?;
                let is_namespace = |target: &IdedExpr| match &target.expr {
                    Expr::Ident(name) => NAMESPACES.contains(&name.as_str()),
                    _ => false,
                };
                let target = call
                    .target
                    .as_deref()
                    .filter(|target| !is_namespace(target));
                target.map_or(Ok(()), |target| self.check(target))?;
                call.args
                    .iter()
                    .try_for_each(|argument| self.check(argument))
            }
            Expr::Comprehension(of) => {
                self.check(&of.iter_range)?;
                self.check(&of.accu_init)?;
                self.loops += 1;
                if self.loops > LOOPS_MAX {
                    return Err((
                        id,
                        format!("loops over lists are nested at most {LOOPS_MAX} deep"),
                    ));
                }
                let known = self.known.len();
                self.known
                    .extend([of.iter_var.as_str(), of.accu_var.as_str()]);
                self.known.extend(of.iter_var2.as_deref());
                for part in [&of.loop_cond, &of.loop_step, &of.result] {
                    self.check(part)?;
                }
                self.known.truncate(known);
                self.loops -= 1;
                Ok(())
            }
        }
    }

    fn check_entry(&mut self, entry: &'e EntryExpr) -> Result<(), Wrong> {
        match entry {
            EntryExpr::StructField(field) => self.check(&field.value),
            EntryExpr::MapEntry(entry) => {
                self.check(&entry.key)?;
                self.check(&entry.value)
            }
        }
    }

    fn check_variable(&self, id: u64, name: &str) -> Result<(), Wrong> {
        if self.known.contains(&name) || TYPES.contains(&name) {
            return Ok(());
        }
        let known = self.known.join(", ");
        Err((
            id,
            format!("there is no variable {name}; there are {known}"),
        ))
    }
}

fn check_function(id: u64, name: &str) -> Result<(), Wrong> {
    let is_operator = name.starts_with(['_', '!', '-', '@']);
    if is_operator || FUNCTIONS.contains(&name) {
        return Ok(());
    }
    Err((id, format!("there is no function {name}")))
}

/// Puts what may be part of an event to the left of `==` and `!=`. Lists and records of events know how to compare
/// themselves with those that expressions make, but not the other way round.
pub(super) fn order_comparisons(expression: &mut IdedExpr) {
    match &mut expression.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) | Expr::Struct(_) => {}
        Expr::Select(select) => order_comparisons(&mut select.operand),
        Expr::List(list) => list.elements.iter_mut().for_each(order_comparisons),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    order_comparisons(&mut entry.value);
                }
            }
        }
        Expr::Call(call) => {
            call.target
                .iter_mut()
                .for_each(|target| order_comparisons(target));
            call.args.iter_mut().for_each(order_comparisons);
            let compares = matches!(
                call.func_name.as_str(),
                operators::EQUALS | operators::NOT_EQUALS
            );
            if compares
                && call.args.len() == 2
                && !may_be_of_event(&call.args[0])
                && may_be_of_event(&call.args[1])
            {
                call.args.swap(0, 1);
            }
        }
        Expr::Comprehension(of) => {
            for part in [
                &mut of.iter_range,
                &mut of.accu_init,
                &mut of.loop_cond,
                &mut of.loop_step,
                &mut of.result,
            ] {
                order_comparisons(part);
            }
        }
    }
}

fn may_be_of_event(expression: &IdedExpr) -> bool {
    match &expression.expr {
        Expr::Ident(_) | Expr::Select(_) => true,
        Expr::Call(call) => matches!(
            call.func_name.as_str(),
            operators::INDEX | operators::CONDITIONAL
        ),
        _ => false,
    }
}
