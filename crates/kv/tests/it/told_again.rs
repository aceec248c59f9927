//! Stories of other modules, told again in pools of another kind.

/// Makes a test of each story, which `told` tells: `told_again! { |story| told(story); module: story story; }`.
macro_rules! told_again {
    (|$told:ident| $call:expr; $($module:ident: $($story:ident)+;)+) => {
        $(mod $module {
            $(#[test]
            fn $story() {
                let $told = crate::$module::$story;
                $call;
            })+
        })+
    };
}

pub(crate) use told_again;
